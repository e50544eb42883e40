"""Hosts of several replicas are killed while tasks bring rows to all of them, and while rows cross an exchange: every
row counts exactly once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.spark.processes import is_alive
from tests.spark.test_rescaling import arrive, check, counted, engine_of, sends_rows
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

KILLS = 4


@pytest.mark.slow
def test_killed_while_rows_arrive(spark: Any, tmp_path: Path) -> None:
    chance = Random(2)
    arrive(tmp_path, 0)
    files = 1
    engine = engine_of(spark, tmp_path, 2)
    engine.start()
    try:
        wait_until(lambda: counted(engine, files))
        assert sends_rows(engine)
        for _ in range(KILLS):
            assert engine._run is not None
            hosts = [host.pid for host in engine._run.epochs.hosts if host is not None]
            victim = chance.choice(hosts)
            arrive(tmp_path, files)
            files += 1
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: not is_alive(victim))  # noqa: B023
            wait_until(lambda: counted(engine, files))  # noqa: B023
    finally:
        engine.stop()
    arrive(tmp_path, files)
    engine = engine_of(spark, tmp_path, 2)
    engine.run_once()
    check(spark, tmp_path, engine)
