"""The checkpoint in an object store: damage, missing objects, a server that is away, clean-up, and the lane log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.commit import Commit
from headgate.spark.lane_log import LaneLog
from tests.spark.object_store import Objects, ObjectStore


def _open(objects: Objects) -> Checkpoint:
    return Checkpoint("ck", fs.PyFileSystem(ObjectStore(objects)))


def _commit(checkpoint: Checkpoint, epoch: int, store: CheckpointStore, kept: Sequence[str] = ()) -> None:
    store.begin(epoch, "a")
    store.open_bundle()
    store.write(f"p{epoch}", pa.table({"n": list(range(100))}).to_batches())
    place, files = store.close_bundle({"parts": [f"p{epoch}", *kept]})
    checkpoint.commit(Commit(epoch, snapshots=(place,), files=files))


@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
@pytest.mark.parametrize("which", ["commits", "parts"])
def test_damage_is_reported_in_one_line(how: str, which: str) -> None:
    objects = Objects()
    checkpoint = _open(objects)
    checkpoint.next_generation()
    _commit(checkpoint, 0, CheckpointStore(checkpoint))
    name = next(name for name in objects.content if name.startswith(f"ck/{which}/"))
    data = objects.content[name]
    if how == "cut":
        objects.content[name] = data[: len(data) // 2]
    elif how == "flip":
        objects.content[name] = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    else:
        del objects.content[name]
    reader = _open(objects)

    def read() -> None:
        reader.read_bytes(reader.load(0).snapshots[0])

    with pytest.raises(CheckpointError, match=r"is damaged \(.*\); restore it") as error:
        read()
    assert "\n" not in str(error.value)


def test_a_server_that_is_away_is_no_damage() -> None:
    objects = Objects()
    checkpoint = _open(objects)
    checkpoint.next_generation()
    _commit(checkpoint, 0, CheckpointStore(checkpoint))
    commit = checkpoint.load(0)
    objects.away = True
    for action, said in (
        (lambda: checkpoint.probe(), "probe cannot be written: the server cannot be reached"),
        (lambda: checkpoint.newest(), "commits cannot be listed: the server cannot be reached"),
        (lambda: checkpoint.read_bytes(commit.snapshots[0]), "cannot be read: the server cannot be reached"),
        (lambda: checkpoint.commit(Commit(1)), "cannot be written: the server cannot be reached"),
        (lambda: _open(objects).identity(), "identity cannot be written: the server cannot be reached"),
    ):
        with pytest.raises(CheckpointError, match=said) as error:
            action()
        assert "damaged" not in str(error.value)
        assert "\n" not in str(error.value)
    objects.away = False
    checkpoint.commit(Commit(1))
    assert _open(objects).newest() == Commit(1)


def test_objects_that_no_commit_names_are_removed() -> None:
    objects = Objects()
    first = _open(objects)
    first.next_generation()
    store = CheckpointStore(first)
    for epoch in range(4):
        _commit(first, epoch, store, ["p0"] if epoch else [])
    checkpoint = _open(objects)
    identity = checkpoint.identity()
    checkpoint.next_generation()
    checkpoint.publish(3)
    checkpoint.clean()
    left = {name.removeprefix("ck/").partition(".json.")[0].partition(".0")[0] for name in objects.content}
    parts = {f"parts/{epoch:012d}-a.bin" for epoch in (0, 2, 3)}
    claims = {name for name in left if name.startswith("claims/")}
    assert left - claims == {
        "commits/000000000002",
        "commits/000000000003",
        "published/000000000003",
        "identity",
        *parts,
    }
    assert len(claims) == 1
    assert _open(objects).identity() == identity


def test_a_lane_log_that_does_not_contain_the_committed_batch_is_reported(tmp_path: Path) -> None:
    log = LaneLog(None, str(tmp_path))
    log.check("ck", {})
    with pytest.raises(CheckpointError, match=r"Spark's log of lane main in .* does not contain batch 3, which is"):
        log.check("ck", {"main": 3})
    (tmp_path / "main" / "offsets").mkdir(parents=True)
    (tmp_path / "main" / "offsets" / "3").write_text("v1")
    log.check("ck", {"main": 3})
