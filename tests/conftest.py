"""Shared by all tests: Hypothesis profiles, how often threads switch, the JVM's options, the one Spark session, and the
check that a test ends its threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from headgate.spark import class_archive
from tests.threads_left import no_threads_left

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=25, deadline=None, suppress_health_check=_quiet, derandomize=True)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SWITCH = os.environ.get("HEADGATE_SWITCH_INTERVAL")
"""Seconds between two thread switches. `make test-threads` sets 1e-6, so that races happen that are rare otherwise."""

# Short-lived JVMs, here and in the processes that tests start: a Spark that starts and runs eight small queries takes
# 19 seconds of processor time with the first three options and 32 without. Spark's own classes need no verification:
# a start takes 7 to 8 seconds instead of 9 to 10.
_QUICK_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
os.environ.setdefault("SPARK_SUBMIT_OPTS", _QUICK_JVM)
# An archive of Spark's classes is used if there is one; tests make none.
_archive = class_archive.archive()
if _archive is None or not class_archive.complete(_archive):
    os.environ[class_archive.SWITCH] = "off"
os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_JVM)


def pytest_configure(config: pytest.Config) -> None:
    if SWITCH:
        sys.setswitchinterval(float(SWITCH))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests come first: at the end no process waits for a long test of another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_report_header(config: pytest.Config) -> str:
    return f"threads switch every {sys.getswitchinterval() * 1e6:g} µs"


@pytest.fixture(autouse=True)
def _threads_end_with_their_test() -> Iterator[None]:
    with no_threads_left():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for the whole run, tuned as the product's own."""
    from headgate.spark.session import local_session

    session = local_session("headgate-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_side(spark: Any) -> Any:
    """Spark's side of the oracle: all cases of a process share a session."""
    from tests.oracle.spark_side import SparkSide

    return SparkSide(spark)


@pytest.fixture(scope="session")
def type_of(spark_side: Any) -> Callable[..., Any]:
    """The types of expressions: Spark is asked once for each."""
    from headgate.spark.analysis import Analyzer

    return Analyzer(lambda: spark_side.session).type_of


@pytest.fixture(scope="session")
def group_of(spark_side: Any, type_of: Callable[..., Any]) -> Callable[[str], Any]:
    """A group of the oracle's cases by its name: compiled, and computed by Catalyst, once."""
    from tests.runtime.oracle_groups import Group, groups

    found = groups()
    return cache(lambda name: Group(found[name], type_of, spark_side))
