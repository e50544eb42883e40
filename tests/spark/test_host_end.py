"""A host in a living process ends without leaving a thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headgate.runtime import threads
from headgate.spark.messages import EpochAnswer
from tests.spark.host_driver import HostDriver
from tests.spark.inline import inline_host
from tests.spark.test_host import SCRIPT, batch
from tests.threads_left import no_threads_left


def test_a_host_that_is_closed_while_it_works_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No thread ends by itself.
    monkeypatch.setattr(threads, "LINGER", 3600.0)
    driver = HostDriver(tmp_path, SCRIPT, mode="operator", threads=2)
    with no_threads_left():
        before = set(threading.enumerate())
        host = inline_host()
        for rows, budget in ((60, None), (5_000, 0.0)):
            answers: list[EpochAnswer] = []
            tables = [batch(number, rows) for number in range(5)]
            host.epoch(driver.request(True, budget=budget), "0", lambda of=tables: driver.packed(of), answers.append)  # type: ignore[misc]
            driver.accept(answers[0])
        started = {thread.name.partition("_")[0] for thread in threading.enumerate() if thread not in before}
        assert started >= {"headgate-background", "headgate", "headgate-writer"}
        assert answers[0].waiting, "the background thread has nothing to do"
        host.close()
    assert not host.waiting
