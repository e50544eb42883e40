"""A job of 200 queries on Spark that takes one more and lets one go, counted in epochs while rows flow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.engine.metrics import EngineMetrics
from headgate.spark.driver import Driver
from headgate.spark.epochs import Epoch
from headgate.spark.lane import LaneBatch
from headgate.spark.lanes import Lanes
from headgate.spark.plan import Plan
from tests.arriving import arrive_json, sending
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM s (k STRING, v INT, w INT) USING json OPTIONS (path '{root}/in');
CREATE STREAM other (x INT) USING json OPTIONS (path '{root}/other');
CREATE QUERY alarm CLASS critical AS SELECT v FROM s WHERE v >= 0;
"""
ROWS = 20
GROUPS = "SELECT k, sum(v) AS t, count(*) AS n FROM s WHERE v % 199 <> {number} GROUP BY k"

SELECTION = "SELECT k, v FROM s WHERE v % 3 <> 0"


class Job:
    """An engine with class critical and many other queries, and its epochs. Rows arrive all the time: the next ones as
    soon as class critical has answered those before the last ones.

    - `epochs`: all that are committed; `delivered`: their number when Spark brought the rows of each epoch with rows
    - `changed`: their number when the plan changed last
    """

    def __init__(self, spark: Any, root: Path, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
        for folder in ("in", "other"):
            (root / folder).mkdir()
        self.root, self.sent = root, 0
        self.epochs: list[Epoch] = []
        self.delivered: list[int] = []
        self.changed = 0
        engine = self.engine = hg.Engine("cqc", spark=spark, results=1_000_000)
        engine.execute(SCRIPT.format(root=root))
        for number in range(queries - 1):
            engine.query(f"q{number}", GROUPS.format(number=number))
        self._watch(monkeypatch)

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        committed, deliver, replan = EngineMetrics.committed, Driver.deliver, Driver.replan

        def noted_commit(metrics: EngineMetrics, epoch: Epoch) -> None:
            committed(metrics, epoch)
            self.epochs.append(epoch)

        def noted_rows(driver: Driver, batch: LaneBatch) -> None:
            self.delivered.append(len(self.epochs))
            deliver(driver, batch)

        def noted_change(driver: Driver, make: Callable[[Lanes], Plan]) -> Plan:
            def plan(lanes: Lanes) -> Plan:
                # On the loop's thread, between two epochs.
                self.changed = len(self.epochs)
                return make(lanes)

            return replan(driver, plan)

        monkeypatch.setattr(EngineMetrics, "committed", noted_commit)
        monkeypatch.setattr(Driver, "deliver", noted_rows)
        monkeypatch.setattr(Driver, "replan", noted_change)

    def send(self) -> None:
        if sum(epoch.rows.get("alarm", 0) for epoch in self.epochs) < self.sent - ROWS:
            return
        values = range(self.sent, self.sent + ROWS)
        arrive_json(self.root / "in" / f"{self.sent}.json", [{"k": f"k{v % 7}", "v": v, "w": v} for v in values])
        self.sent += ROWS

    def send_both(self) -> None:
        before = self.sent
        self.send()
        if self.sent > before:
            arrive_json(self.root / "other" / f"{before}.json", [{"x": before}])

    def change(self, change: Callable[[], object]) -> list[Epoch]:
        """Changes the queries while rows flow, and waits for five epochs with rows; returns all since the change."""
        change()
        first = self.changed
        wait_until(lambda: sum(epoch.taken > 0 for epoch in self.epochs[first:]) >= 5)
        return self.epochs[first:]

    def check_critical(self) -> None:
        """Class critical has answered the rows of every epoch in that epoch, and all rows that Spark brought have
        waited for the running epoch at most."""
        with_rows = [place for place, epoch in enumerate(self.epochs) if epoch.taken]
        assert all(self.epochs[place].rows["alarm"] == self.epochs[place].taken for place in with_rows)
        waited = [place - since for place, since in zip(with_rows, self.delivered, strict=True)]
        assert max(waited) <= 1, waited

    def settled(self, paused: str = "") -> dict[str, Any]:
        """The metrics once everything is answered and no rows wait but those of a paused query."""

        def done() -> bool:
            metrics = self.engine.metrics()
            waiting = {name for name, figures in metrics["queries"].items() if figures.get("waiting_bytes")}
            answered = sum(epoch.rows.get("alarm", 0) for epoch in self.epochs)
            return answered == self.sent and not metrics["waiting"] and waiting == ({paused} if paused else set())

        wait_until(done)
        return self.engine.metrics()


def until_answer(
    epochs: list[Epoch], query: str, brings: Callable[[Epoch], bool] = lambda epoch: epoch.taken > 0
) -> int:
    """The number of epochs from a change until a query answers, with the first one and that of the answer. Epochs that
    only fetch results, because no rows of its streams have arrived, are not counted."""
    last = next(place for place, epoch in enumerate(epochs) if epoch.rows.get(query))
    return sum(place == 0 or brings(epoch) for place, epoch in enumerate(epochs[: last + 1]))


def until_critical(epochs: list[Epoch]) -> int:
    """As `until_answer`, for class critical."""
    return until_answer(epochs, "alarm")


@pytest.mark.parametrize("queries", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_job_takes_one_more_query_and_lets_one_go(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    """A new query answers within two epochs: that of the change, and the first with rows. A stopped one frees its rows
    and its state. Neither delays class critical by more than one epoch."""
    job = Job(spark, tmp_path, queries, monkeypatch)
    engine = job.engine
    engine.start()
    try:
        with sending(job.send):
            wait_until(lambda: engine.metrics()["queries"]["q7"].get("state_bytes", 0) > 0)
            for cls in ("critical", "normal"):
                found = job.change(lambda cls=cls: engine.query(f"new_{cls}", SELECTION, cls=cls))  # type: ignore[misc]
                assert until_answer(found, f"new_{cls}") <= 2
                assert until_critical(found) <= 2
            assert until_critical(job.change(lambda: engine.pause("q7"))) <= 2
        before = job.settled(paused="q7")
        own = {each["key"]: each for each in before["operators"] if each["queries"] == ["q7"]}
        assert before["queries"]["q7"]["waiting_bytes"] > 0
        assert sum(each["state_bytes"] for each in own.values()) > 0
        assert before["memory"]["bytes"] > 0
        with sending(job.send):
            found = job.change(lambda: engine.stop_query("q7"))
            assert until_critical(found) <= 2
            assert not any(epoch.rows.get("q7") for epoch in found)
        after = job.settled()
        assert after["memory"]["bytes"] == 0
        assert not after["queries"]["q7"].get("state_bytes", 0)
        kept = {each["key"]: each["state_bytes"] for each in before["operators"] if each["key"] not in own}
        assert {each["key"]: each["state_bytes"] for each in after["operators"]} == kept
        assert len(job.delivered) == sum(epoch.taken > 0 for epoch in job.epochs)
        job.check_critical()
    finally:
        engine.stop()


@pytest.mark.slow  # tests/spark/test_query_changes.py has these cases without Spark
@pytest.mark.parametrize("queries", [20, 200])
def test_a_new_query_over_a_column_or_a_stream_that_no_query_has_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    """A column costs no epoch: the lane is restarted before the next one. A stream gets a lane of its own. Until Spark
    brings its first rows other lanes may have epochs, but with these rows the query answers."""
    job = Job(spark, tmp_path, queries, monkeypatch)
    engine = job.engine
    engine.start()
    try:
        with sending(job.send_both):
            wait_until(lambda: len(job.delivered) > 3)
            found = job.change(lambda: engine.query("column", "SELECT w FROM s WHERE w % 3 <> 0"))
            assert until_answer(found, "column") <= 2
            assert until_critical(found) <= 2
            known = len(job.epochs[-1].commit.lanes)
            engine.query("stream", "SELECT x FROM other")
            first = job.changed
            wait_until(lambda: any(epoch.rows.get("stream") for epoch in job.epochs[first:]))

        def newest(epoch: Epoch) -> list[int]:
            """The newest batches of the lanes that were added."""
            return list(epoch.commit.lanes.values())[known:]

        brought = {epoch.number for before, epoch in pairwise(job.epochs) if newest(epoch) > newest(before)}
        found = job.epochs[first:]
        assert until_answer(found, "stream", lambda epoch: epoch.number in brought) <= 2
        assert until_answer(found, "alarm", lambda epoch: epoch.taken > 0 and epoch.number not in brought) <= 2
    finally:
        engine.stop()
