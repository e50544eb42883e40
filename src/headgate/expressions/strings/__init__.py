"""Functions of text: its parts, and patterns it matches."""
