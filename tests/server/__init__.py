"""Tests of the server, the page and the client."""
