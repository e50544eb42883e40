"""Generated rows, sent at the rate of an arrival process."""
