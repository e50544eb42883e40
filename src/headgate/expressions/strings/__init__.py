"""Functions of strings: changing them, their parts, and pattern matching."""
