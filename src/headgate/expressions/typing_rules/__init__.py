"""Types of calls, by topic."""
