"""The gate before a lane: an idle query waits, and looks as soon as a folder changes."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.gate import Gate
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


class Lane:
    """A streaming query over `path`, with its gate; `rows` gets what it delivers."""

    def __init__(self, spark: Any, path: str, checkpoint: Path, folders: list[str] | None) -> None:
        self.rows: queue.Queue[int] = queue.Queue()
        frame = spark.readStream.schema("a long").json(path)
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(self._take)
        self.query = writer.start()
        self.gate = Gate(self.query, folders)
        self.lock = self.query._jsq.streamingQuery().awaitProgressLock()

    def _take(self, frame: Any, batch: int) -> None:
        for row in frame.collect():
            self.rows.put(row.a)

    def next(self) -> int:
        """The next row; raises what the query has raised."""
        wait_until(lambda: not self.rows.empty() or not self.query.isActive)
        error = self.query.exception()
        if error is not None:
            raise error
        return self.rows.get()

    def waits(self) -> bool:
        """Whether the gate is closed and the query is before it."""
        return bool(self.lock.isLocked() and self.lock.hasQueuedThreads())

    def stop(self) -> None:
        self.gate.close()
        self.query.stop()


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Lane]]:
    running: list[Lane] = []

    def begin(path: str, folders: list[str] | None) -> Lane:
        running.append(Lane(spark, path, tmp_path / "checkpoint", folders))
        return running[-1]

    yield begin
    for lane in running:
        lane.stop()


def put(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text(f'{{"a": {number}}}\n')
    os.rename(hidden, folder / f"{number}.json")


@pytest.mark.parametrize("watched", [True, False])
def test_an_idle_query_waits_and_delivers_what_comes(start: Callable[..., Lane], tmp_path: Path, watched: bool) -> None:
    put(tmp_path / "in", 0)
    lane = start(f"{tmp_path}/in", [f"{tmp_path}/in"] if watched else None)
    for number in range(3):
        assert lane.next() == number
        wait_until(lane.waits)
        put(tmp_path / "in", number + 1)
    assert lane.next() == 3


@pytest.mark.parametrize(
    ("path", "first", "later"),
    [("in", "in/k=1", ("in/k=2", "in/k=1", "in/k=2")), ("{a,b*}", "a", ("b", "b", "a", "bb"))],
    ids=["folders below", "pattern"],
)
def test_all_folders_are_watched(
    start: Callable[..., Lane],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    first: str,
    later: tuple[str, ...],
) -> None:
    monkeypatch.setattr("headgate.spark.gate.FIRST", 3600.0)
    monkeypatch.setattr("headgate.spark.gate.LONGEST", 3600.0)
    put(tmp_path / first, 0)
    lane = start(f"{tmp_path}/{path}", [f"{tmp_path}/{path}"])
    assert lane.next() == 0
    for number, folder in enumerate(later, 1):
        wait_until(lane.waits)
        put(tmp_path / folder, number)
        assert lane.next() == number


def test_a_query_stops_behind_a_closed_gate(start: Callable[..., Lane], tmp_path: Path) -> None:
    put(tmp_path / "in", 0)
    lane = start(f"{tmp_path}/in", [f"{tmp_path}/in"])
    wait_until(lane.waits)
    lane.stop()
    assert not lane.query.isActive
    assert lane.query.exception() is None
    assert not lane.lock.isLocked()
