"""Text to graph: the SELECT dialect is Spark's, parsed by sqlglot."""
