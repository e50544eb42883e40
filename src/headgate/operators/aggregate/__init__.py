"""Aggregates: the states of the functions, and the operators for windows of time, of rows, sessions and no window."""
