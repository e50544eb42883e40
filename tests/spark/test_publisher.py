"""The publisher with sinks that are slow or stand still: epochs wait, and `close` ends in time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.messages import WrittenFile
from headgate.spark.publisher import Publisher
from headgate.spark.results import DriverWriter, HostWriter, Results, SinkError
from headgate.spark.written_files import WrittenFiles
from tests.connectors.declared import query_into
from tests.waiting import LIMIT, wait_until


class NoLetters(HostWriter):
    def stage(self, results: Results, attempt: str) -> list[WrittenFile]:
        return []

    def publish(self, results: Results) -> None: ...


class Files(WrittenFiles):
    """Takes a file when `turn` allows it."""

    def __init__(self) -> None:
        self.turn = threading.Semaphore(0)
        self.taken: list[str] = []

    def publish(self, file: WrittenFile, again: bool) -> None:
        self.turn.acquire()
        self.taken.append(file.final)


class Slow:
    """A publisher over such a sink."""

    def __init__(self, root: Path, most_waiting: int = 3) -> None:
        self.checkpoint = Checkpoint(str(root / "ck"))
        self.files, self.failed = Files(), threading.Event()
        self.publisher = Publisher(
            self.checkpoint,
            lambda query, sink: pytest.fail("no query has a sink"),
            NoLetters(),
            lambda epoch: None,
            self.failed.set,
            files=self.files,
            most_waiting=most_waiting,
        )

    def put(self, epoch: int) -> None:
        file = WrittenFile("q", "/nowhere", "", str(epoch), 1)
        commit = Commit(epoch, {}, written=(file,))
        self.checkpoint.commit(commit)
        self.publisher.put(commit, {})


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    found = Slow(tmp_path)
    yield found
    for _ in range(100):
        found.files.turn.release()


def test_epochs_wait_while_too_many_wait_for_the_sinks(slow: Slow) -> None:
    with ThreadPoolExecutor(1) as threads:
        # One is being published, three wait.
        for epoch in range(4):
            threads.submit(slow.put, epoch).result(LIMIT)
        fifth = threads.submit(slow.put, 4)
        slow.files.turn.release()
        fifth.result(LIMIT)
        sixth = threads.submit(slow.put, 5)
        wait_until(lambda: slow.checkpoint.newest() is not None and slow.checkpoint.newest().epoch == 5)  # type: ignore[union-attr]
        assert not sixth.done()
        # Nothing waits for a sink when the engine stops.
        slow.publisher.hurry()
        sixth.result(LIMIT)
    for _ in range(5):
        slow.files.turn.release()
    slow.publisher.close()
    assert slow.files.taken == [str(epoch) for epoch in range(6)]
    assert slow.publisher.failure is None


def test_an_epoch_that_ends_while_the_engine_stops_is_published(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    slow.put(0)
    slow.publisher.hurry()
    changed, idle = slow.publisher._changed, threading.Event()
    wait_for = changed.wait_for

    def seen(*given: Any) -> bool:
        # Under the lock, which `put` needs: the thread has looked for more epochs, and found none.
        idle.set()
        return wait_for(*given)

    monkeypatch.setattr(changed, "wait_for", seen)
    for _ in range(2):
        slow.files.turn.release()
    assert idle.wait(LIMIT)
    slow.put(1)
    slow.publisher.close(LIMIT)
    assert slow.files.taken == ["0", "1"]
    assert slow.publisher.failure is None


def test_close_has_one_limit_for_all_epochs(slow: Slow) -> None:
    """Each epoch is published well within the limit, and all together are not."""
    done = threading.Event()

    def drip() -> None:
        while not done.wait(0.05):
            slow.files.turn.release()

    slow.publisher._most_waiting = 1_000
    for epoch in range(400):
        slow.put(epoch)
    threading.Thread(target=drip, daemon=True).start()
    slow.publisher.close(0.5)
    done.set()
    assert slow.failed.is_set()
    assert "the next start" in str(slow.publisher.failure)
    assert len(slow.files.taken) < 400
    left = 399 - slow.checkpoint.published()
    again = Publisher(
        slow.checkpoint,
        lambda *_: pytest.fail("no query has a sink"),
        NoLetters(),
        lambda _: None,
        threaded=False,
        files=slow.files,
    )
    for _ in range(500):
        slow.files.turn.release()
    assert again.republish() == left


def test_a_sink_that_stands_still_does_not_hold_up_the_end(slow: Slow) -> None:
    slow.put(0)
    slow.publisher.close(0.05)
    assert "the last 1 epochs" in str(slow.publisher.failure)


class Hanging(DriverWriter):
    """Notes when it begins and ends to take an epoch; `turn` lets it end."""

    def __init__(self, seen: list[str], name: str, turn: threading.Event | None = None) -> None:
        self._seen, self._name, self._turn = seen, name, turn

    def publish(self, results: Results) -> None:
        self._seen.append(f"{self._name} begins {results.query}")
        if self._turn is not None:
            assert self._turn.wait(LIMIT)
        self._seen.append(f"{self._name} ends {results.query}")


def test_a_publisher_that_is_left_behind_begins_nothing_more(tmp_path: Path) -> None:
    """A later one waits for what it has begun: two at once could both find that a table does not have the epoch."""
    checkpoint, turn = Checkpoint(str(tmp_path / "ck")), threading.Event()
    queries = [replace(query_into("memory", ""), name=name) for name in ("first", "second")]
    seen: list[str] = []

    def publisher(writer: str, hangs: threading.Event | None) -> Publisher:
        found = Publisher(checkpoint, lambda query, sink: Hanging(seen, writer, hangs), NoLetters(), lambda epoch: None)
        for query in queries:
            found.open(query)
        return found

    bundle = checkpoint.bundle("outbox", 0, "a")
    for query in queries:
        bundle.add(query.name, pa.table({"k": ["a"], "v": ["b"]}))
    bundle.close()
    commit = Commit(0, {}, results=tuple(bundle.places))
    checkpoint.commit(commit)
    old = publisher("old", turn)
    old.put(commit, {})
    wait_until(lambda: bool(seen))
    old.close(0.01)
    new = publisher("new", None)
    assert new.republish() == 1
    turn.set()
    new.close(LIMIT)
    assert new.failure is None
    assert seen == [
        "old begins first",
        "old ends first",
        *(f"new {verb} {name}" for name in ("first", "second") for verb in ("begins", "ends")),
    ]
    assert checkpoint.published() == 0


def test_a_sink_that_raises_what_would_end_its_thread_is_reported(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow.files, "publish", lambda *_: sys.exit(3))
    slow.put(0)
    assert slow.failed.wait(LIMIT)
    assert "epoch 0 could not be published: SystemExit: 3" in str(slow.publisher.failure)
    slow.publisher.close(LIMIT)


def test_a_sink_that_cannot_be_closed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: NoLetters) -> None:
        raise OSError("the broker is gone")

    monkeypatch.setattr(NoLetters, "close", broken)
    slow = Slow(tmp_path)
    slow.publisher.close(LIMIT)
    assert "the broker is gone" in str(slow.publisher.failure)


class Begun(DriverWriter):
    """A sink that can take back what it has begun, but not be closed."""

    def __init__(self) -> None:
        self.revoked = threading.Event()

    def publish(self, results: Results) -> None: ...

    def revoke(self) -> None:
        self.revoked.set()

    def close(self) -> None:
        raise OSError("the broker is gone")


def test_all_sinks_revoke_what_they_have_begun_when_one_fails(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise SinkError("query q: the folder is gone")

    other = Begun()
    monkeypatch.setattr(slow.publisher, "_open_sink", lambda query, sink: other)
    monkeypatch.setattr(slow.files, "publish", refused)
    slow.publisher.open(query_into("noop", ""))
    slow.put(0)
    assert other.revoked.wait(LIMIT)
    # What comes after the first error does not hide it.
    slow.publisher.close(LIMIT)
    assert str(slow.publisher.failure).startswith("query q: the folder is gone; ")
