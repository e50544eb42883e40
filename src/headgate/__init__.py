"""Continuous SQL queries inside one Spark job, scheduled operator by operator."""
