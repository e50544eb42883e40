"""Damaged files, full disks and read-only folders: `headgate run` prints one clear line, and continues after repair."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.arriving import arrive_parquet
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 60 SECONDS)
USING parquet OPTIONS (path '{source}', maxFilesPerTrigger '1');
CREATE QUERY hot INTO parquet OPTIONS (path 'out/hot') AS {hot};
CREATE QUERY sums INTO parquet OPTIONS (path 'out/sums') AS {sums};
"""
QUERIES = {
    "hot": "SELECT ts, k, v FROM s WHERE v > 70",
    "sums": "SELECT window(ts, '10 seconds') AS w, k, sum(v) AS total, count(*) AS n FROM s"
    " GROUP BY window(ts, '10 seconds'), k",
}
START = 1_700_000_000_000_000


def _arrive(folder: Path, number: int, rows: int = 200) -> None:
    at = [START + number * 5_000_000 + (n * 7919 % 6_000) * 1000 for n in range(rows)]
    table = pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
            "k": [f"key {number} {n % 50} {'x' * 40}" for n in range(rows)],
            "v": pa.array([(n * 31 + number) % 100 for n in range(rows)], pa.int32()),
        }
    )
    arrive_parquet(folder / f"{number:03d}.parquet", table, modified=1_700_000_000 + number)


class Place:
    """A folder with a script; `headgate run` is called in it."""

    def __init__(self, root: Path, source: Path, checkpoint: str = "ck") -> None:
        self.root = root
        self.source = source
        self.checkpoint = checkpoint
        root.mkdir(parents=True, exist_ok=True)
        (root / "script.sql").write_text(SCRIPT.format(source=source, **QUERIES))

    def command(self, *more: str) -> list[str]:
        run = ["run", "script.sql", "--checkpoint", self.checkpoint, *more]
        return [sys.executable, "-m", "headgate.cli.main", *run]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*more), cwd=self.root, capture_output=True, text=True, timeout=LIMIT, check=False
        )

    def commits(self) -> list[int]:
        """The committed epochs that the checkpoint still holds."""
        return sorted(int(file.stem) for file in (self.root / self.checkpoint / "commits").glob("*.json"))

    def refused(self, *more: str) -> str:
        """Runs it, which must fail with one line; gives the line."""
        ended = self.run(*more)
        assert ended.returncode in (1, 3), f"exit {ended.returncode}: {ended.stdout}{ended.stderr}"
        # Java prints a line about its modules.
        lines = [line for line in ended.stderr.splitlines() if line.strip() and "incubator" not in line]
        assert len(lines) == 1, "\n".join(lines[:20])
        line = lines[0]
        assert "Traceback" not in ended.stdout
        assert ended.returncode == 1, f"it is nothing that broke in Headgate: {line}"
        return line

    def completes(self, spark: Any) -> None:
        """Runs it to the end of all rows: it continues after the last commit, and the files hold Spark's answer."""
        before = self.commits()
        ended = self.run("--once")
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
        assert "Traceback" not in ended.stderr
        if before:
            # Complete: the last commit ended every stream, and only its publication was missing.
            told = (f"continues after epoch {before[-1]}", f"complete: it ended with epoch {before[-1]}")
            assert any(line in ended.stdout for line in told), ended.stdout
        spark.read.parquet(str(self.source)).createOrReplaceTempView("s")
        for name, select in QUERIES.items():
            files = (self.root / "out" / name).glob("*.parquet")
            found = Counter(repr(row) for file in files for row in pq.read_table(file).to_pylist())
            assert found == Counter(map(repr, spark.sql(select).toArrow().to_pylist())), name


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run that read six files and was stopped by Ctrl-C, in an orderly way; three more files have arrived since."""
    root = tmp_path_factory.mktemp("stopped")
    place = Place(root / "place", root / "source")
    for number in range(6):
        _arrive(place.source, number)
    process = subprocess.Popen(
        place.command(), cwd=place.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_until(lambda: 5 in place.commits(), process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert "the same command continues from there" in output
    assert "Traceback" not in output
    for number in range(6, 9):
        _arrive(place.source, number)
    return place


@pytest.fixture
def copied(stopped: Place, tmp_path: Path) -> Place:
    shutil.copytree(stopped.root, tmp_path / "place")
    return Place(tmp_path / "place", stopped.source)


def _newest_commit(place: Place) -> Path:
    return max((place.root / "ck" / "commits").glob("*.json"))


def _newest_state(place: Place) -> Path:
    commit = json.loads(_newest_commit(place).read_text().partition(" ")[2])
    return place.root / "ck" / str(commit["snapshots"][0]["file"])


FILES = {"commit": _newest_commit, "state": _newest_state}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "corrupt": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :],
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
}


@contextmanager
def _repaired(file: Path) -> Iterator[bytes]:
    """The content of the file, which is restored at the end."""
    data = file.read_bytes()
    yield data
    file.write_bytes(data)


def _damaged(copied: Place, which: str, how: str) -> None:
    with _repaired(FILES[which](copied)) as data:
        file = FILES[which](copied)
        file.write_bytes(DAMAGES[how](data))
        line = copied.refused("--once")
        assert file.name in line
        assert "is damaged" in line
        assert "restore it from a copy" in line


def test_a_damaged_file(spark: Any, copied: Place) -> None:
    _damaged(copied, "state", "corrupt")
    copied.completes(spark)


@pytest.mark.slow
def test_other_damaged_and_missing_files(spark: Any, copied: Place) -> None:
    for which, how in (
        ("commit", "empty"),
        ("commit", "corrupt"),
        ("commit", "cut"),
        ("state", "cut"),
        ("state", "empty"),
    ):
        _damaged(copied, which, how)
    with _repaired(_newest_commit(copied)):
        _newest_commit(copied).unlink()
        line = copied.refused("--once")
        assert re.search(r"the rows of batch \d+ of lane main are in no commit", line)
    copied.completes(spark)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@contextmanager
def _small(folder: Path, size: str) -> Iterator[Path]:
    """A small file system in memory."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "headgate-test", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_a_checkpoint_on_a_full_disk(spark: Any, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", tmp_path / "source")
    for number in range(8):
        _arrive(place.source, number, 3000)
    with _small(place.root / "ck", "600k") as disk:
        line = place.refused("--once")
        assert "No space left" in line
        assert "ck" in line
        _mount("-o", "remount,size=200m", str(disk))
        place.completes(spark)


@pytest.mark.slow
def test_a_read_only_checkpoint(spark: Any, stopped: Place, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", stopped.source)
    shutil.copytree(stopped.root / "out", place.root / "out")
    with _small(place.root / "ck", "200m") as disk:
        shutil.copytree(stopped.root / "ck", disk, dirs_exist_ok=True)
        _mount("-o", "remount,ro", str(disk))
        line = place.refused("--once")
        assert "Read-only file system" in line
        assert "checkpoint ck" in line
        _mount("-o", "remount,rw", str(disk))
        place.completes(spark)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_sink_that_fails(spark: Any, tmp_path: Path, how: str) -> None:
    place = Place(tmp_path / "place", tmp_path / "source")
    for number in range(6):
        _arrive(place.source, number, 1000)
    with _small(place.root / "out" / "hot", "12k" if how == "full" else "200m") as disk:
        if how == "read-only":
            _mount("-o", "remount,ro", str(disk))
        line = place.refused("--once")
        assert line.startswith("query hot: ")
        assert ("No space left" if how == "full" else "Read-only file system") in line
        # A folder that is read-only is refused at the start already.
        assert ("published at the next start" in line) == (how == "full")
        _mount("-o", "remount,rw,size=200m", str(disk))
        place.completes(spark)
