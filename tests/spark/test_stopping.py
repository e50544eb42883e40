"""What a stop waits for has a limit: a cluster that gives no executor, a host that does not answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from headgate.cli import run as cli_run
from headgate.control.query_control import EngineError
from headgate.engine import Engine
from headgate.spark import host_client, lazy_session
from headgate.spark.lazy_session import LazySession
from headgate.spark.messages import HostAddress
from tests.waiting import LIMIT


class Context:
    applicationId = "a cluster without a free executor"  # noqa: N815
    master = "spark://nowhere:7077"

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._jsc: object = self

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        self.cancelled.set()


class Session:
    """Its jobs run when they are cancelled."""

    def __init__(self) -> None:
        self.sparkContext = Context()
        self.stopped = False

    def range(self, _: int) -> Session:
        return self

    coalesce = range

    def mapInArrow(self, *_: object) -> Session:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> None:
        assert self.sparkContext.cancelled.wait(LIMIT)

    def stop(self) -> None:
        self.stopped = True


def test_a_session_stops_although_its_first_job_gets_no_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_session, "WARM_UP_TIMEOUT", 0.05)
    session, spark = LazySession(None, "spark://nowhere:7077", True), Session()
    session._spark, session._application = spark, "1"
    session.stop()
    assert spark.stopped
    assert spark.sparkContext.cancelled.is_set()


def test_the_last_engine_of_a_process_stops_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Session()
    spark.sparkContext.cancelled.set()
    monkeypatch.setattr(lazy_session, "session", lambda *_: spark)
    first, second = (LazySession(None, "spark://nowhere:7077", True) for _ in range(2))
    assert first.spark is second.spark is spark
    first.stop()
    first.stop()
    assert not spark.stopped
    second.stop()
    assert spark.stopped


def test_a_session_that_was_stopped_is_not_stopped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Session()
    monkeypatch.setattr(lazy_session, "session", lambda *_: spark)
    session = LazySession(None, "spark://nowhere:7077", True)
    assert session.spark is spark
    spark.sparkContext._jsc = None
    session.stop()
    assert not spark.stopped


def test_a_start_ends_if_the_engine_is_stopped_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    opening, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Run:
        running = True

        def __init__(self, *_: object) -> None:
            opening.set()
            assert go_on.wait(LIMIT)

        def close(self, timeout: float | None) -> None:
            closed.set()

    monkeypatch.setattr("headgate.engine.engine.EngineRun", Run)
    engine = Engine(master="spark://nowhere:7077")
    with ThreadPoolExecutor(1) as threads:
        start = threads.submit(engine.start)
        assert opening.wait(LIMIT)
        monkeypatch.setattr("headgate.engine.engine._START_PATIENCE", 0.0)
        engine.stop()
        go_on.set()
        with pytest.raises(EngineError, match="stopped while it started"):
            start.result(LIMIT)
    assert closed.is_set()


def test_hosts_are_closed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    monkeypatch.setattr(host_client, "close_host", lambda host, token: both.wait(LIMIT))
    host_client.close_hosts((HostAddress("here", str(number), number) for number in range(2)), "token")
    host_client.close_hosts((), "token")


class Stuck:
    """An engine that waits for executors, until Spark is stopped."""

    def __init__(self) -> None:
        self.interrupted = False
        self.stopped = threading.Event()

    def start(self) -> None:
        assert self.stopped.wait(LIMIT)

    run_once = start

    def interrupt(self) -> None:
        self.interrupted = True


@pytest.mark.parametrize("once", [False, True])
def test_ctrl_c_ends_a_start_that_waits_for_a_cluster(monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    monkeypatch.setattr(cli_run, "_STOP_PATIENCE", 0.05)
    monkeypatch.setattr(cli_run, "_SCREEN_EVERY", 0.05)
    monkeypatch.setattr(cli_run, "_report_resumption", lambda *_: True)
    monkeypatch.setattr(cli_run._Show, "__call__", lambda _: None)
    requested = threading.Event()
    requested.set()
    engine = Stuck()
    try:
        (cli_run._once if once else cli_run._until_stopped)(cast(Engine, cast(Any, engine)), requested, True)
        assert engine.interrupted == once
    finally:
        engine.stopped.set()


def test_what_fails_at_the_start_is_reported() -> None:
    class Failing:
        def start(self) -> None:
            raise ValueError("no such topic")

    with pytest.raises(ValueError, match="no such topic"):
        cli_run._until_stopped(cast(Engine, cast(Any, Failing())), threading.Event(), True)
