"""Alternate plans of queries (003 §3.4): equivalent graphs, ranked by the work that each adds to the running graph."""
