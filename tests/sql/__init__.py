"""Tests of text to graph."""
