"""CAST, values as text, and text as values."""
