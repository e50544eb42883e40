"""Tests on a standalone cluster of Spark."""
