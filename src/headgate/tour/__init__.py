"""The tour behind `headgate demo`: the same rows under plain Structured Streaming and under Headgate, and a report."""
