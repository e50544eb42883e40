"""CAST, and what it shares: values as text, and text as values."""
