"""Several engines on one checkpoint: of each epoch there is one commit, whatever the order of their operations."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyarrow import fs

from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import Commit
from tests.spark.crashing_files import Crash
from tests.spark.object_store import Objects, ObjectStore

ENGINES = 5
EPOCHS = 5


class Turns:
    """Lets one of several threads go on at a time, in an order that depends on a seed alone."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self.random = random.Random(seed)
        self._alive = set(names)
        self._waiting: set[str] = set()
        self._chosen: str | None = None
        self._changed = threading.Condition()
        self._late: list[Callable[[], None]] = []

    def wait(self, name: str) -> None:
        """Returns when it is this thread's turn, which it has until its next call. Crash if the thread ends here."""
        with self._changed:
            self._waiting.add(name)
            self._choose()
            self._changed.wait_for(lambda: self._chosen == name)
            self._waiting.discard(name)
            self._chosen = None
            if self._late and self.random.random() < 0.1:
                self._late.pop(0)()
            if self.random.random() < 0.03:
                raise Crash

    def end(self, name: str) -> None:
        with self._changed:
            self._alive.discard(name)
            self._choose()

    def put(self, appear: Callable[[], None]) -> None:
        """Puts an object; now and then the client gets an error, and the object appears later, or never."""
        if self.random.random() < 0.05:
            self._late.append(appear)
            raise OSError("timed out")
        appear()

    def _choose(self) -> None:
        if self._chosen is None and self._waiting and self._waiting == self._alive:
            self._chosen = self.random.choice(sorted(self._waiting))
            self._changed.notify_all()


class Engines:
    """Engines that commit epochs and clean, and what they believe to be committed."""

    def __init__(self, seed: int) -> None:
        self.objects = Objects()
        self.names = [f"engine{number}" for number in range(ENGINES)]
        self.turns = Turns(seed, self.names)
        self.believed: dict[int, str] = {}
        self.errors: list[BaseException] = []
        self.superseded = 0

    def run(self) -> None:
        with ThreadPoolExecutor(ENGINES) as threads:
            list(threads.map(self._engine, self.names))
        if self.errors:
            raise self.errors[0]

    def _believe(self, commit: Commit) -> None:
        assert self.believed.setdefault(commit.epoch, commit.plan) == commit.plan, f"epoch {commit.epoch} has two"

    def _engine(self, name: str) -> None:
        store = ObjectStore(self.objects)
        store.before = lambda: self.turns.wait(name)
        store.put = self.turns.put
        try:
            for _ in range(self.turns.random.randrange(8)):
                self.turns.wait(name)
            self._commits(name, Checkpoint("ck", fs.PyFileSystem(store)))
        except (Crash, CheckpointError) as error:
            self.superseded += "second engine" in str(error)
        except BaseException as error:
            self.errors.append(error)
        finally:
            self.turns.end(name)

    def _commits(self, name: str, checkpoint: Checkpoint) -> None:
        checkpoint.next_generation()
        newest = checkpoint.newest() or Commit(-1)
        if newest.epoch >= 0:
            self._believe(newest)
        attempts = 0
        while newest.epoch < EPOCHS:
            attempts += 1
            attempt = f"{name}-{attempts}"
            part = checkpoint.bundle("parts", newest.epoch + 1, attempt)
            part.add_bytes("part", attempt.encode())
            try:
                part.close()
                commit = Commit(newest.epoch + 1, files=(part.places[0][1].file, *newest.files[:1]), plan=attempt)
                checkpoint.commit(commit)
            except CheckpointError as error:
                if "second engine" in str(error):
                    raise
                # The epoch is repeated: the driver does not know whether this one is committed.
                continue
            self._believe(commit)
            newest = commit
            checkpoint.publish(commit.epoch)
            checkpoint.clean(keep=1)


def test_in_an_object_store_every_epoch_has_one_commit_under_any_order_of_operations() -> None:
    superseded = 0
    for seed in range(500):
        engines = Engines(seed)
        engines.run()
        superseded += engines.superseded
        # A later engine continues from what the others believe in, and finds all that it needs.
        last = Checkpoint("ck", fs.PyFileSystem(ObjectStore(engines.objects)))
        last.next_generation()
        newest = last.newest()
        if newest is None:
            assert not engines.believed
            continue
        assert newest.epoch >= max(engines.believed, default=0), seed
        assert engines.believed.get(newest.epoch, newest.plan) == newest.plan, seed
        for file in newest.files:
            assert last.exists(file), f"{seed}: {file}"
    assert superseded > 50, "engines meet"


def test_all_engines_have_the_same_identity_in_an_object_store() -> None:
    objects = Objects()

    def identity() -> str:
        return Checkpoint("ck", fs.PyFileSystem(ObjectStore(objects))).identity()

    first = identity()
    assert identity() == identity() == first


def test_a_superseded_engine_neither_commits_nor_cleans_nor_decides_later() -> None:
    objects = Objects()
    old, new = (Checkpoint("ck", fs.PyFileSystem(ObjectStore(objects))) for _ in range(2))
    old.next_generation()
    for epoch in range(3):
        old.commit(Commit(epoch, plan="old"))
        old.publish(epoch)
    new.next_generation()
    assert new.newest() == Commit(2, plan="old")
    with pytest.raises(CheckpointError, match="second engine"):
        old.commit(Commit(3, plan="late"))
    before = dict(objects.content)
    old.clean(keep=1)
    assert objects.content == before
    new.commit(Commit(3, plan="new"))
    new.clean(keep=1)
    assert new.load(3).plan == "new"
    assert Checkpoint("ck", fs.PyFileSystem(ObjectStore(objects))).newest() == Commit(3, plan="new")
    assert [name for name in objects.content if name.startswith("ck/claims/")] == [
        name for name in before if name.startswith("ck/claims/")
    ]


def test_a_commit_that_a_superseded_engine_has_put_before_the_takeover_is_adopted() -> None:
    objects = Objects()
    store = ObjectStore(objects)
    old = Checkpoint("ck", fs.PyFileSystem(store))
    new = Checkpoint("ck", fs.PyFileSystem(ObjectStore(objects)))
    old.next_generation()

    def put(appear: Callable[[], None]) -> None:
        appear()
        new.next_generation()

    store.put = put
    with pytest.raises(CheckpointError, match="second engine"):
        old.commit(Commit(0, plan="old"))
    assert new.newest() == Commit(0, plan="old")


def test_of_engines_that_commit_at_once_on_a_file_system_one_succeeds(tmp_path: Path) -> None:
    engines = [Checkpoint(str(tmp_path)) for _ in range(8)]
    together = threading.Barrier(len(engines))

    def commits(engine: Checkpoint) -> list[int]:
        done = []
        for epoch in range(30):
            together.wait()
            with suppress(CheckpointError):
                engine.commit(Commit(epoch, plan=str(id(engine))))
                done.append(epoch)
        return done

    with ThreadPoolExecutor(len(engines)) as threads:
        found = list(threads.map(commits, engines))
    assert sorted(epoch for done in found for epoch in done) == list(range(30))
    for engine, done in zip(engines, found, strict=True):
        assert all(engine.load(epoch).plan == str(id(engine)) for epoch in done)
    assert not list((tmp_path / "commits").glob("*.tmp"))
