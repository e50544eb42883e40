"""Arithmetic on numbers, decimals, dates and intervals."""
