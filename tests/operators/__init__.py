"""Live operators against brute-force models in plain Python."""
