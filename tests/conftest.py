"""Shared by all tests: Hypothesis profiles and the one Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=50, deadline=None, suppress_health_check=_quiet, derandomize=True)
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for the whole run, tuned as the product's own."""
    from headgate.spark.session import local_session

    session = local_session("headgate-tests")
    yield session
    session.stop()
