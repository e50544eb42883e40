"""The checkpoint in `format_1.zip`, which Headgate wrote when checkpoints had format 1, and the rows and queries of it.

To write it again, with Headgate as it was then:

    git worktree add ../old 7f7ff1a && cp tests/spark/format_1.py ../old/tests/spark
    cd ../old && PYTHONPATH=src:. python -m tests.spark.format_1 format_1.zip

The engine reads `BEFORE` files of each stream under a policy that learns; in the last epochs it schedules for next to
no time, so that rows wait in queues. One query has failed. No epoch is recorded as published.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pyarrow as pa

from headgate.engine import Engine
from tests.arriving import arrive_parquet

FILE = Path(__file__).with_suffix(".zip")
ROOT = "/tmp/headgate-format-1"
"""Spark's logs of the lanes name the files that were read: where they were."""
POLICY = "amos:policies=rr+fifo+chain,interval=1ms,learner=thompson"
BEFORE, FILES = 4, 6
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 30 SECONDS)
USING parquet OPTIONS (path '{root}/s', maxFilesPerTrigger '1');
CREATE STREAM r (ts TIMESTAMP, k STRING, w INT, WATERMARK FOR ts AS ts - INTERVAL 30 SECONDS)
USING parquet OPTIONS (path '{root}/r', maxFilesPerTrigger '1');
CREATE FUNCTION picky(v INT) RETURNS INT AS 'tests.spark.functions:picky';
"""
QUERIES = {
    "hot": "SELECT ts, k, v FROM s WHERE v > 70",
    "sums": "SELECT window(ts, '10 seconds') AS w, k, sum(v) AS total, count(*) AS n FROM s"
    " GROUP BY window(ts, '10 seconds'), k",
    "pairs": "SELECT s.ts, s.k, v, w FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts AND s.ts + INTERVAL 5 SECONDS",
    "failed": "SELECT picky(v) AS x FROM s",
}


def script(root: Path | str) -> str:
    """All declarations, for sources and sinks below a folder."""
    queries = [
        f"CREATE QUERY {name} INTO parquet OPTIONS (path '{root}/out/{name}') AS {select};\n"
        for name, select in QUERIES.items()
    ]
    return SCRIPT.format(root=root) + "".join(queries)


def arrive(root: Path, stream: str, number: int) -> None:
    """A file of a stream."""
    at = [1_700_000_000_000_000 + number * 5_000_000 + (n * 7919 % 6_000) * 1000 for n in range(40)]
    values = [1000 if (number, n) == (0, 5) else (n * 31 + number) % 100 for n in range(40)]
    table = pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
            "k": [f"k{n % 7}" for n in range(40)],
            "v" if stream == "s" else "w": pa.array(values, pa.int32()),
        }
    )
    arrive_parquet(root / stream / f"{number:03d}.parquet", table, modified=1_700_000_000 + number)


def extracted(root: Path) -> str:
    """Unpacks the checkpoint below a folder, as if it had been written there; gives its path."""
    with zipfile.ZipFile(FILE) as archive:
        archive.extractall(root)
    for file in (root / "ck" / "lanes").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(ROOT.encode(), str(root).encode()))
    return str(root / "ck")


def _write(target: Path) -> None:
    root = Path(ROOT)
    shutil.rmtree(root, ignore_errors=True)
    for numbers, budget in ((range(2), 60.0), (range(2, BEFORE), 1e-9)):
        for number in numbers:
            arrive(root, "s", number)
            arrive(root, "r", number)
        engine = Engine(POLICY, str(root / "ck"), budget=budget)
        engine.execute(script(root))
        engine._open()
        assert engine._lanes is not None
        engine._lanes.start(once=True)
        engine._lanes.wait()
        print("waiting:", engine.metrics()["waiting"])
        engine._close()
    shutil.rmtree(root / "ck" / "published")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((root / "ck").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(root))
    shutil.rmtree(root)
    os._exit(0)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
