"""Shared by all tests: Hypothesis profiles, how often threads change, and the one Spark session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=50, deadline=None, suppress_health_check=_quiet, derandomize=True)
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SWITCH = os.environ.get("HEADGATE_SWITCH_INTERVAL")
"""Seconds after which threads change (`make test-threads` says 1e-6), so that what can go wrong between two does."""


def pytest_configure(config: pytest.Config) -> None:
    if SWITCH:
        sys.setswitchinterval(float(SWITCH))


def pytest_report_header(config: pytest.Config) -> str:
    return f"threads change every {sys.getswitchinterval() * 1e6:g} µs"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for the whole run, tuned as the product's own."""
    from headgate.spark.session import local_session

    session = local_session("headgate-tests")
    yield session
    session.stop()
