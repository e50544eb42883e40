"""Runs an engine on a cluster in a process of its own: a process has one Spark session.

Usage: engine.py MASTER FOLDER EPOCHS. Sends one file after the other, each when the one before has its result, until
that many epochs are committed; prints the sums of each key and the metrics as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import headgate as hg
from headgate.spark.session import session
from tests.arriving import arrive_json
from tests.waiting import wait_until

KEYS = 5
ROWS = 20
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
}


def _settings(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: whether it talks to the executor by a Unix socket, and the process that workers are forked from."""
    for _ in batches:
        pass
    daemon = Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")
    socket = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "")
    yield pa.RecordBatch.from_pydict({"socket": [socket], "daemon": [daemon]})


def run(master: str, folder: str, epochs: int) -> None:
    spark = session("headgate-cluster", master, SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    Path(folder, "in").mkdir()
    newest: dict[str, tuple[int, int]] = {}
    selected: list[int] = []

    def keep(table: pa.Table) -> None:
        for row in table.to_pylist():
            newest[row["k"]] = (row["n"], row["s"])

    engine = hg.Engine("cqc", f"{folder}/checkpoint", spark=spark, trigger_cores=None)
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{folder}/in');")
    engine.query("sums", "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k", sink=hg.callback(keep))
    engine.query(
        "some",
        "SELECT v FROM s WHERE v % 10 = 0",
        sink=hg.callback(lambda table: selected.extend(table.column("v").to_pylist())),
    )
    started = time.monotonic()
    engine.start()
    files = 0
    first = 0.0
    while engine.metrics()["epochs"] < epochs:
        rows = [{"k": f"k{n % KEYS}", "v": n} for n in range(files * ROWS, (files + 1) * ROWS)]
        arrive_json(Path(folder, "in", f"{files}.json"), rows)
        files += 1
        seen = files * ROWS
        wait_until(lambda seen=seen: sum(n for n, _ in newest.values()) == seen)  # type: ignore[misc]
        first = first or time.monotonic() - started
    metrics = engine.metrics()
    [settings_there] = spark.range(1).coalesce(1).mapInArrow(_settings, "socket string, daemon string").collect()
    engine.stop()
    spark.stop()
    figures = {key: metrics[key] for key in ("epochs", "restores", "epochs_per_second", "epoch_seconds")}
    found = {"first_result_seconds": first, **settings_there.asDict()}
    print(json.dumps({"files": files, "sums": newest, "selected": sorted(selected), **figures, **found}))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
