"""The checkpoint: commits are atomic, damage is reported, and files that no commit needs are removed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headgate.spark.checkpoint import Checkpoint, CheckpointError, Commit
from headgate.spark.checkpoint_store import CheckpointStore


def _table(n: int) -> pa.Table:
    return pa.table({"n": list(range(n))})


def _read_all(checkpoint: Checkpoint) -> list[pa.Table]:
    commit = checkpoint.newest()
    assert commit is not None
    return [checkpoint.read(place) for place in commit.parts.values()]


def _files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def test_a_commit_is_read_back_with_its_parts(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.newest() is None
    bundle = checkpoint.bundle("parts", 0, "a")
    bundle.add("a", _table(3))
    bundle.add("b", _table(5))
    bundle.close()
    checkpoint.commit(Commit(0, {"main": 4}, ({"x": 1},), dict(bundle.places), (), {"q": {"sql": "s"}}))
    found = Checkpoint(str(tmp_path)).newest()
    assert found is not None
    assert (found.epoch, found.lanes, found.manifests) == (0, {"main": 4}, ({"x": 1},))
    assert [checkpoint.read(found.parts[k]).num_rows for k in "ab"] == [3, 5]


@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
@pytest.mark.parametrize("which", ["commits", "parts"])
def test_damage_is_reported_in_one_line(tmp_path: Path, how: str, which: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    bundle = checkpoint.bundle("parts", 0, "a")
    bundle.add("a", _table(3))
    bundle.close()
    checkpoint.commit(Commit(0, parts=dict(bundle.places)))
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
    kept = None
    for epoch in range(6):
        parts = checkpoint.bundle("parts", epoch, "a")
        parts.add(f"p{epoch}", _table(epoch))
        parts.close()
        kept = kept or dict(parts.places)
        outbox = checkpoint.bundle("outbox", epoch, "a")
        outbox.add("q", _table(1))
        outbox.close()
        checkpoint.commit(Commit(epoch, parts={**kept, **dict(parts.places)}, results=tuple(outbox.places)))
    checkpoint.clean()
    assert len(list((tmp_path / "commits").iterdir())) == 6, "none is published yet"
    checkpoint.publish(3)
    checkpoint.clean()
    files = _files(tmp_path)
    assert {f for f in files if f.startswith("commits")} == {f"commits/{n:012d}.json" for n in (4, 5)}
    assert {f for f in files if f.startswith("outbox")} == {f"outbox/{n:012d}-a.bin" for n in (4, 5)}
    assert {f for f in files if f.startswith("parts")} == {f"parts/{n:012d}-a.bin" for n in (0, 4, 5)}
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
    first = store.close_bundle(["spilled", *(f"part{n}" for n in range(10))])
    assert len({place.file for place in first.values()}) == 2
    assert store.read("part3", 0).num_rows == 100
    store.begin(1, "a1")
    store.open_bundle()
    second = store.close_bundle(["spilled", "part0", "part1", "part2"])
    assert second["part0"] == first["part0"], "a dense enough bundle stays as it is"
    store.begin(2, "a2")
    store.open_bundle()
    third = store.close_bundle(["spilled", "part0"])
    assert third["spilled"] == first["spilled"]
    assert third["part0"].file != first["part0"].file, "what lives in a sparse bundle moves"
    other = CheckpointStore(checkpoint)
    other.adopt(third)
    assert other.read("part0", 0).num_rows == 100
    assert other.read("spilled", 0).num_rows == 10


def test_an_epoch_is_never_committed_twice(tmp_path: Path) -> None:
    Checkpoint(str(tmp_path)).commit(Commit(0))
    with pytest.raises(CheckpointError, match="second engine"):
        Checkpoint(str(tmp_path)).commit(Commit(0))
