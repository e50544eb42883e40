"""Spark: the session, and asking Catalyst for what only Catalyst knows."""
