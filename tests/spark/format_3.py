"""The checkpoint in `format_3.zip`, which Headgate wrote when checkpoints had format 3, with the results so far.

To write it again, with Headgate as it was then:

    python -m tests.spark.format_3 format_3.zip

The engine reads `BEFORE` files of each stream of `format_1.py`, in two lanes. One query is paused, so that its rows
wait in queues; one has failed; a learning policy has learned something.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from headgate.engine import Engine
from tests.spark.format_1 import BEFORE, POLICY, QUERIES, arrive, script
from tests.waiting import wait_until

FILE = Path(__file__).with_suffix(".zip")
ROOT = "/tmp/headgate-format-3"
"""Spark's logs of the lanes name the files that were read: where they were."""
PAUSED = "hot"


def declarations(root: Path | str) -> str:
    """As in format 1, with a class that gives stream t a lane of its own."""
    sooner = (
        "CREATE CLASS sooner WITH (priority = 3);\n"
        f"CREATE QUERY few CLASS sooner INTO parquet OPTIONS (path '{root}/out/few')"
        " AS SELECT ts, w FROM t WHERE w > 90;\n"
    )
    stream = (
        "CREATE STREAM t (ts TIMESTAMP, k STRING, w INT, WATERMARK FOR ts AS ts - INTERVAL 30 SECONDS)"
        f" USING parquet OPTIONS (path '{root}/t', maxFilesPerTrigger '1');\n"
    )
    return script(root) + stream + sooner


def extracted(root: Path) -> str:
    """Unpacks checkpoint and results below a folder, as if they had been written there; gives the checkpoint's path."""
    with zipfile.ZipFile(FILE) as archive:
        archive.extractall(root)
    for file in (root / "ck" / "lanes").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(ROOT.encode(), str(root).encode()))
    return str(root / "ck")


def _write(target: Path) -> None:
    root = Path(ROOT)
    shutil.rmtree(root, ignore_errors=True)
    for number in range(BEFORE):
        for stream in ("s", "r", "t"):
            arrive(root, stream, number)
    engine = Engine(POLICY, str(root / "ck"))
    engine.execute(declarations(root))
    engine.pause(PAUSED)
    engine.start()

    def all_read() -> bool:
        figures = engine.metrics()["queries"]
        return bool(
            figures["failed"]["state"] == "failed"
            and figures[PAUSED].get("queue_rows") == BEFORE * 40
            and engine.results("few").num_rows > 0
        )

    wait_until(all_read)
    engine.stop()
    assert engine.failure is None
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in ("ck", "out"):
            for file in sorted((root / folder).rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(root))
    print("queries:", sorted(QUERIES))
    shutil.rmtree(root)
    os._exit(0)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
