"""The checkpoint: commits are atomic, damage is reported, and files that no commit needs are removed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.commit import Commit
from headgate.spark.lane_notes import note, noted
from headgate.spark.messages import ExchangedRows, Place, WrittenFile


def _table(n: int) -> pa.Table:
    return pa.table({"n": list(range(n))})


def _read_all(checkpoint: Checkpoint) -> list[pa.Table]:
    commit = checkpoint.newest()
    assert commit is not None
    manifest = checkpoint.manifest(commit.snapshots[0])
    store = CheckpointStore(checkpoint)
    store.adopt(manifest)
    return [pa.table(store.read(part, 0)) for part in manifest["parts"]]


def _snapshot(store: CheckpointStore, epoch: int, parts: dict[str, int], kept: Sequence[str] = ()) -> dict[str, Any]:
    """Ends an epoch with new parts of so many rows and kept ones; gives what its commit says of the state."""
    store.begin(epoch, "a")
    store.open_bundle()
    for key, rows in parts.items():
        store.write(key, _table(rows).to_batches())
    place, files = store.close_bundle({"parts": [*parts, *kept]})
    return {"snapshots": (place,), "files": files}


def _files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def test_a_commit_is_read_back_with_its_parts(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.newest() is None
    outbox = checkpoint.bundle("outbox", 0, "a")
    outbox.add("q", _table(2))
    outbox.close()
    commit = Commit(
        0,
        {"main": 4},
        **_snapshot(CheckpointStore(checkpoint), 0, {"a": 3, "b": 5}),
        results=tuple(outbox.places),
        written=(WrittenFile("q", "out", ".0", "0.parquet", 7),),
        failures=({"query": "q", "error": "it raised"},),
        plan="p",
        complete=True,
    )
    checkpoint.commit(commit)
    assert Checkpoint(str(tmp_path)).newest() == commit
    assert [table.num_rows for table in _read_all(checkpoint)] == [3, 5]
    assert checkpoint.read(commit.results[0][1]).num_rows == 2


@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
@pytest.mark.parametrize("which", ["commits", "parts"])
def test_damage_is_reported_in_one_line(tmp_path: Path, how: str, which: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.commit(Commit(0, **_snapshot(CheckpointStore(checkpoint), 0, {"a": 3})))
    file = next((tmp_path / which).iterdir())
    data = file.read_bytes()
    if how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "flip":
        file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif which == "parts":
        file.unlink()
    else:
        return
    with pytest.raises(CheckpointError, match=r"is damaged \(.*\); restore it") as error:
        _read_all(checkpoint)
    assert "\n" not in str(error.value)


def test_files_that_no_commit_names_are_removed_unless_unpublished(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    store = CheckpointStore(checkpoint)
    for epoch in range(6):
        state = _snapshot(store, epoch, {f"p{epoch}": 100}, ["p0"] if epoch else [])
        outbox = checkpoint.bundle("outbox", epoch, "a")
        outbox.add("q", _table(1))
        outbox.close()
        checkpoint.commit(Commit(epoch, **state, results=tuple(outbox.places)))
    # What a crash has left, and what a host writes now.
    for name in ("000000000003-b.bin.tmp", "000000000005-b.bin", "000000000006-b.bin.tmp"):
        (tmp_path / "parts" / name).write_bytes(b"half")
    checkpoint.clean()
    assert len(list((tmp_path / "commits").iterdir())) == 6, "none is published yet"
    checkpoint.publish(3)
    checkpoint.clean()
    files = _files(tmp_path)
    assert {f for f in files if f.startswith("commits")} == {f"commits/{n:012d}.json" for n in (4, 5)}
    assert {f for f in files if f.startswith("outbox")} == {f"outbox/{n:012d}-a.bin" for n in (4, 5)}
    written = {f"parts/{n:012d}-a.bin" for n in (0, 4, 5)}
    assert {f for f in files if f.startswith("parts")} == {*written, "parts/000000000006-b.bin.tmp"}
    assert {f for f in files if f.startswith("published")} == {"published/000000000003"}


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be opened"):
        Checkpoint(str(tmp_path / "file" / "below"))


def test_parts_are_written_once_and_moved_out_of_sparse_bundles(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    store = CheckpointStore(checkpoint)
    store.begin(0, "a0")
    store.write("spilled", _table(10).to_batches())
    store.open_bundle()
    for number in range(10):
        store.write(f"part{number}", _table(100).to_batches())
    place, first = store.close_bundle({"parts": ["spilled", *(f"part{n}" for n in range(10))]})
    assert len(first) == 2
    assert store.read("part3", 0).num_rows == 100
    store.begin(1, "a1")
    store.open_bundle()
    _, second = store.close_bundle({"parts": ["spilled", "part0", "part1", "part2", "part3"]})
    assert set(second) > set(first), "a dense enough bundle stays as it is"
    store.begin(2, "a2")
    store.open_bundle()
    third_place, third = store.close_bundle({"parts": ["spilled", "part0"]})
    assert place.file not in third, "what lives in a sparse bundle moves"
    assert len(third) == 2
    other = CheckpointStore(checkpoint)
    other.adopt(checkpoint.manifest(third_place))
    assert other.read("part0", 0).num_rows == 100
    assert other.read("spilled", 0).num_rows == 10


def test_a_network_may_spill_and_discard_while_its_snapshot_is_written(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    store = CheckpointStore(checkpoint)
    store.begin(0, "a0")
    store.write("read soon", _table(10).to_batches())
    store.open_bundle()
    # The network goes on after its manifest is made: the manifest needs the first part, and not the second.
    store.discard("read soon")
    store.write("spilled late", _table(20).to_batches())
    place, _ = store.close_bundle({"parts": ["read soon"]})
    other = CheckpointStore(checkpoint)
    other.adopt(checkpoint.manifest(place))
    assert other.read("read soon", 0).num_rows == 10
    assert store.read("spilled late", 0).num_rows == 20
    store.begin(1, "a1")
    store.open_bundle()
    place, files = store.close_bundle({"parts": ["spilled late"]})
    other.adopt(checkpoint.manifest(place))
    assert other.read("spilled late", 0).num_rows == 20
    assert len(files) == 2


def test_an_epoch_is_never_committed_twice(tmp_path: Path) -> None:
    Checkpoint(str(tmp_path)).commit(Commit(0))
    with pytest.raises(CheckpointError, match="second engine"):
        Checkpoint(str(tmp_path)).commit(Commit(0))


def test_a_commit_of_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.commit(Commit(0))
    file = tmp_path / "commits" / "000000000000.json"
    body = file.read_bytes()[9:].replace(b'"format":3', b'"format":4')
    file.write_bytes(b"%08x %s" % (zlib.crc32(body), body))
    with pytest.raises(CheckpointError, match=r"000000000000\.json has format 4; this Headgate reads formats 1 to 3"):
        checkpoint.newest()


def test_the_streams_of_lanes_are_read_back(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert noted(checkpoint) == {}
    note(checkpoint, {"main": ["a", "b"], "lane-1-c": ["c"]})
    assert noted(Checkpoint(str(tmp_path))) == {"main": ["a", "b"], "lane-1-c": ["c"]}
    # Earlier versions wrote no format.
    (tmp_path / "lanes.json").write_text('{"main": ["a"]}')
    assert noted(checkpoint) == {"main": ["a"]}


@pytest.mark.parametrize("text", ["", "{", "[]", "17", '{"main": 3}', '{"format": 3}', '{"format": 3, "lanes": [1]}'])
def test_streams_of_lanes_that_cannot_be_read_are_reported(tmp_path: Path, text: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    (tmp_path / "lanes.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"lanes\.json is damaged"):
        noted(checkpoint)


def test_streams_of_lanes_in_an_unknown_format_are_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    (tmp_path / "lanes.json").write_text('{"format": 4, "lanes": {"main": ["a"]}}')
    with pytest.raises(CheckpointError, match=r"lanes\.json has format 4; this Headgate reads formats 1 to 3"):
        noted(checkpoint)


def test_generations_rise_with_every_driver(tmp_path: Path) -> None:
    assert [Checkpoint(str(tmp_path)).next_generation() for _ in range(3)] == [1, 2, 3]


def test_a_commit_of_several_replicas_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    places = (Place("parts/0", 0, 5, 1), Place("parts/1", 2, 7, 3))
    sent = (ExchangedRows("q/0", Place("parts/2", 0, 9, 4), 17.5),)
    written = Commit(
        0, {"main": 3}, places, ("parts/0", "parts/1"), event_times={"s": 12}, exchange=sent, reached={"q/0": 7}
    )
    checkpoint.commit(written)
    assert checkpoint.newest() == written
    assert written.replicas == 2


def test_a_commit_of_format_2_is_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.commit(Commit(0, {"main": 3}, (Place("parts/0", 0, 5, 1),), ("parts/0",), plan="p"))
    file = tmp_path / "commits" / "000000000000.json"
    found = json.loads(file.read_bytes()[9:])
    for name in ("event_times", "exchange", "reached"):
        del found[name]
    body = json.dumps({**found, "format": 2}).encode()
    file.write_bytes(b"%08x %s" % (zlib.crc32(body), body))
    commit = checkpoint.newest()
    assert commit is not None
    assert (commit.lanes, commit.plan, commit.replicas) == ({"main": 3}, "p", 1)
    assert (commit.event_times, commit.exchange, commit.reached) == ({}, (), {})
