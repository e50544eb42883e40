"""Kills drivers with −9: rows of every format of files, and generated rows, arrive exactly once in every format."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.crash.test_crash import Driver
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FORMATS = ("csv", "json", "orc", "parquet", "text")
POINTS = ("before-commit", "after-commit", "after-publish", "before-published")
EACH = 5
"""Rows of a file."""


def _lines(rows: pa.Table, name: str) -> str:
    values = rows.column(0).to_pylist()
    return "".join(f"{json.dumps({'value': value}) if name == 'json' else value}\n" for value in values)


WRITE: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": lambda rows, file: file.write_text(_lines(rows, "csv")),
    "json": lambda rows, file: file.write_text(_lines(rows, "json")),
    "orc": lambda rows, file: orc.write_table(rows, str(file)),
    "parquet": lambda rows, file: pq.write_table(rows, file),
    "text": lambda rows, file: file.write_text(_lines(rows, "text")),
}


class Files:
    """Numbered files in a folder of each format."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.number = 0

    def more(self, files: int) -> None:
        for _ in range(files):
            for name in FORMATS:
                folder = self._root / "in" / name
                folder.mkdir(parents=True, exist_ok=True)
                rows = pa.table({"value": [f"{name}-{self.number * EACH + place}" for place in range(EACH)]})
                hidden = folder / f".{self.number}"
                WRITE[name](rows, hidden)
                hidden.rename(folder / f"{self.number:05d}.{name}")
            self.number += 1


def test_rows_of_every_format_arrive_once(spark: Any, tmp_path: Path) -> None:
    script = ""
    for name in FORMATS:
        script += f"CREATE STREAM s_{name} (value STRING) USING {name} OPTIONS (path '{tmp_path / 'in' / name}',"
        script += f" maxFilesPerTrigger '1');\nCREATE QUERY q_{name} INTO {name} OPTIONS"
        script += f" (path '{tmp_path / 'out' / name}') AS SELECT value FROM s_{name};\n"
    (tmp_path / "script.sql").write_text(script)
    files = Files(tmp_path)
    files.more(2)
    fuse = tmp_path / "fuse"
    for point in POINTS:
        fuse.unlink(missing_ok=True)
        driver = Driver(tmp_path, point)
        driver.wait_for_commit()
        fuse.touch()
        files.more(2)
        assert driver.process.wait(LIMIT) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
        driver.kill()
    final = Driver(tmp_path, once=True)
    final.process.communicate(timeout=LIMIT)
    assert final.process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    for name in FORMATS:
        frame = spark.read.format(name).schema("value STRING").load(str(tmp_path / "out" / name))
        found = Counter(row[0] for row in frame.collect())
        assert found == Counter(f"{name}-{place}" for place in range(files.number * EACH)), name


def test_generated_rows_arrive_once(spark: Any, tmp_path: Path) -> None:
    sources = {"rate": "rowsPerSecond '50'", "rate-micro-batch": "rowsPerBatch '7'"}
    script = ""
    for number, (source, options) in enumerate(sources.items()):
        script += f"CREATE STREAM s{number} (timestamp TIMESTAMP, value BIGINT) USING `{source}` OPTIONS ({options});\n"
        script += f"CREATE QUERY q{number} INTO parquet OPTIONS (path '{tmp_path / 'out' / str(number)}') AS"
        script += f" SELECT value FROM s{number};\n"
    (tmp_path / "script.sql").write_text(script)
    fuse = tmp_path / "fuse"

    def values(number: int) -> list[int]:
        folder = tmp_path / "out" / str(number)
        files = [file for file in folder.glob("*.parquet") if not file.name.startswith(".")]
        return sorted(value for file in files for value in pq.ParquetFile(file).read()["value"].to_pylist())

    for point in (*POINTS, "none"):
        fuse.unlink(missing_ok=True)
        before = [len(values(number)) for number in range(len(sources))]
        driver = Driver(tmp_path, point)
        driver.wait_for_commit()
        fuse.touch()
        if point == "none":
            wait_until(lambda last=before: all(len(values(n)) > last[n] for n in range(len(sources))), driver.process)
        else:
            assert driver.process.wait(LIMIT) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
        driver.kill()
    for number in range(len(sources)):
        found = values(number)
        assert found == list(range(len(found)))
        assert found
