"""Scalar and aggregate functions as Spark defines them: types, whether a call may fail, and Arrow kernels."""
