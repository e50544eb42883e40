"""Rows of our own making, sent at the pace of an arrival process."""
