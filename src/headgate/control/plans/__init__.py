"""Alternate plans of queries (003 §3.4): equivalent graphs, ranked by what they add to the graph that runs already."""
