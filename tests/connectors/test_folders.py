"""Folders are written in two steps: hidden files by hosts, final names by the driver; a crash anywhere does no harm."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from headgate.connectors.folder import FolderSink, FolderWriter
from headgate.connectors.registry import sinks
from headgate.spark.messages import WrittenFile
from headgate.spark.results import Results, SinkError
from headgate.spark.written_files import WrittenFiles
from tests.spark.crashing_files import Crash, CrashingFiles

TABLE = pa.table({"k": ["a", "b", None, "a", "a"], "v": ["1", "2", "3", "4", "5"]})
FOLDERS = {name: sink for name, sink in sinks().items() if isinstance(sink, FolderSink)}
# Per partition: a has three rows, b and null one each.
OPTIONS = {"partitionBy": "k", "maxRecordsPerFile": "2"}


def _results(epoch: int) -> Results:
    return Results("q", epoch, TABLE)


def _seen(folder: Path) -> dict[str, bytes]:
    """The files that readers see: no part of their path begins with a dot."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {str(f): (folder / f).read_bytes() for f in files if not any(part.startswith(".") for part in f.parts)}


def _hidden(folder: Path) -> list[Path]:
    return sorted((folder / ".headgate").rglob("*.tmp"))


def _rows(folder: Path) -> Counter[str]:
    files = [folder / name for name in _seen(folder)]
    return Counter(value for file in files for value in pq.ParquetFile(file).read()["v"].to_pylist())


def _writer(folder: Path, name: str = "parquet", files: CrashingFiles | None = None) -> FolderWriter:
    sink, options = FOLDERS[name], {"path": str(folder), **OPTIONS}
    given = None if files is None else fs.PyFileSystem(files)
    encode = sink.encoder(options)
    writer = FolderWriter("q", "q-run1", str(folder), encode, sink.ending(options), ["k"], 2, files=given)
    writer.prepare()
    return writer


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_files_are_hidden_until_they_are_published(tmp_path: Path, name: str) -> None:
    options = {"path": str(tmp_path), **OPTIONS}
    writer = FOLDERS[name].host_writer("q", options, "run1", "")
    writer.prepare()
    staged = writer.stage(_results(7), "a1")
    assert _seen(tmp_path) == {}
    assert sorted(file.final for file in staged) == [
        f"k=__HIVE_DEFAULT_PARTITION__/q-run1-000000007-0.{writer._ending}",
        f"k=a/q-run1-000000007-0.{writer._ending}",
        f"k=a/q-run1-000000007-1.{writer._ending}",
        f"k=b/q-run1-000000007-0.{writer._ending}",
    ]
    assert sorted(file.rows for file in staged) == [1, 1, 1, 2]
    contents = {file.final: (tmp_path / file.hidden).read_bytes() for file in staged}
    for file in staged:
        WrittenFiles().publish(file)
    assert _seen(tmp_path) == contents
    assert not _hidden(tmp_path)
    for file in staged:
        WrittenFiles().publish(file, again=True)
        WrittenFiles().publish(file)
    assert _seen(tmp_path) == contents


def test_only_the_committed_attempt_of_an_epoch_is_seen(tmp_path: Path) -> None:
    writer = _writer(tmp_path)
    lost, committed, later = (
        writer.stage(_results(epoch), attempt) for epoch, attempt in ((3, "a1"), (3, "a2"), (4, "a3"))
    )
    other = FolderWriter("other", "other-run1", str(tmp_path), lambda _: b"", "parquet")
    other.prepare()
    foreign = [file.hidden for file in other.stage(_results(1), "b1")]
    (tmp_path / ".someone.tmp").write_bytes(b"theirs")
    files = WrittenFiles()
    for file in committed:
        files.publish(file)
    writer.clean(3)
    assert _rows(tmp_path) == Counter(TABLE["v"].to_pylist())
    left = {str(path.relative_to(tmp_path)) for path in _hidden(tmp_path)}
    assert left == {*(file.hidden for file in later), *foreign}
    assert not left & {file.hidden for file in lost}
    assert (tmp_path / ".someone.tmp").exists()


@pytest.mark.parametrize("kind", ["local", "s3"])
@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_crash_while_files_are_staged_or_moved(tmp_path: Path, how: str, kind: str) -> None:
    """`kind` s3 copies and deletes where a folder is renamed: after a crash between, both names are there."""

    def stage(folder: Path, files: CrashingFiles, attempt: str) -> list[WrittenFile]:
        # Folders are of no use in an object store; the local files below it need them.
        (folder / ".headgate" / "q-run1").mkdir(parents=True, exist_ok=True)
        return _writer(folder, files=files).stage(_results(0), attempt)

    def move(folder: Path, files: CrashingFiles, staged: list[WrittenFile], again: bool) -> None:
        for file in staged:
            (folder / file.final).parent.mkdir(exist_ok=True)
        publishing = WrittenFiles(fs.PyFileSystem(files))
        for file in staged:
            publishing.publish(file, again)

    counting = CrashingFiles(None, "", kind)
    whole = stage(tmp_path / "whole", counting, "a1")
    staging = counting.count
    move(tmp_path / "whole", counting, whole, again=False)
    assert staging == len(whole)
    assert counting.count == staging + len(whole) * (2 if kind == "s3" else 1)
    for at in range(1, counting.count + 1):
        folder = tmp_path / str(at)
        crashing = CrashingFiles(at, how, kind)
        if at <= staging:
            with pytest.raises(Crash):
                stage(folder, crashing, "a1")
            staged = stage(folder, CrashingFiles(None, "", kind), "a2")
        else:
            staged = stage(folder, crashing, "a1")
            with pytest.raises(Crash):
                move(folder, crashing, staged, again=False)
        move(folder, CrashingFiles(None, "", kind), staged, again=True)
        assert _rows(folder) == Counter(TABLE["v"].to_pylist())
        _writer(folder, files=CrashingFiles(None, "", kind)).clean(0)
        assert not _hidden(folder)


def test_a_file_that_was_moved_and_then_read_away_is_published(tmp_path: Path) -> None:
    staged = _writer(tmp_path).stage(_results(0), "a1")
    for file in staged:
        WrittenFiles().publish(file)
        os.remove(tmp_path / file.final)
        WrittenFiles().publish(file, again=True)
    assert _seen(tmp_path) == {}
    # In the epoch's own publication it cannot have been moved: it is lost.
    with pytest.raises(SinkError, match=r"^query q: .*q-run1-000000000.*parquet cannot be written: "):
        WrittenFiles().publish(staged[0])


def test_a_folder_of_a_partition_that_was_removed_is_made_again(tmp_path: Path) -> None:
    writer, files = _writer(tmp_path), WrittenFiles()
    for epoch in (0, 1):
        staged = writer.stage(_results(epoch), "a1")
        for file in staged:
            files.publish(file)
        shutil.rmtree(tmp_path / "k=a")
    assert _rows(tmp_path) == Counter({"2": 2, "3": 2})
    for file in writer.stage(_results(2), "a1"):
        files.publish(file)
    assert _rows(tmp_path) == Counter({"2": 3, "3": 3, "1": 1, "4": 1, "5": 1})


def test_a_host_that_does_not_see_the_drivers_folder_writes_nothing(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for there in (False, True):
        if there:
            elsewhere.mkdir()
        writer = FOLDERS["csv"].host_writer("q", {"path": str(elsewhere)}, "run1", "")
        with pytest.raises(SinkError, match=r"^query q: there is no folder .*elsewhere/.headgate/q-run1 here$"):
            writer.stage(_results(0), "a1")
    assert list(elsewhere.iterdir()) == []


def test_an_empty_staging_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    first, second = _writer(tmp_path), FolderWriter("r", "r-run1", str(tmp_path), lambda _: b"", "csv")
    second.prepare()
    [file] = second.stage(_results(0), "a1")
    first.close()
    second.close()
    assert [path.name for path in (tmp_path / ".headgate").iterdir()] == ["r-run1"]
    WrittenFiles().publish(file)
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == [file.final]


def test_replicas_write_files_of_their_own(tmp_path: Path) -> None:
    for part in ("", "-r1"):
        writer = FOLDERS["parquet"].host_writer("q", {"path": str(tmp_path)}, "run1", part)
        writer.prepare()
        for file in writer.stage(_results(0), "a1"):
            WrittenFiles().publish(file)
    assert sorted(_seen(tmp_path)) == ["q-run1-000000000-r1.parquet", "q-run1-000000000.parquet"]
