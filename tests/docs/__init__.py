"""The examples in README and docs."""
