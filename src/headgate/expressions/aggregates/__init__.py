"""Aggregate functions as Spark defines them: the typing rule of each beside its accumulator, by topic."""
