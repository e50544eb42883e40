"""The HTTP API, the page and the client of a running engine. The client needs only Python's standard library."""
