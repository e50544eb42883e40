"""The headgate command, as a user runs it."""
