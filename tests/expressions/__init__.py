"""Tests of expressions: tables of cases and generated trees, compared with Spark."""
