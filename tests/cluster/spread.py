"""Runs an engine with two replicas on a cluster of executors with several cores, in a process of its own.

Usage: spread.py MASTER FOLDER LATE. If LATE is 1, goes on until the hosts are on two executors; then rescales to three
replicas and to one while rows arrive. Prints as JSON on how many executors the hosts were at each step, and the sums.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

import headgate as hg
from headgate.spark import host_spread
from headgate.spark.session import session
from tests.arriving import arrive_json
from tests.cluster.engine import KEYS, ROWS, SETTINGS
from tests.waiting import wait_until


def run(master: str, folder: str, late: bool) -> None:
    host_spread.EVERY = 0.5
    spark = session("headgate-spread", master, SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    newest: dict[str, tuple[int, int]] = {}
    files = 0

    def keep(table: pa.Table) -> None:
        for row in table.to_pylist():
            newest[row["k"]] = (row["n"], row["s"])

    def send() -> None:
        nonlocal files
        rows = [{"k": f"k{n % KEYS}", "v": n} for n in range(files * ROWS, (files + 1) * ROWS)]
        arrive_json(Path(folder, "in", f"{files}.json"), rows)
        files += 1

    def more() -> None:
        send()
        wait_until(lambda: sum(n for n, _ in newest.values()) == files * ROWS)

    def executors() -> int:
        assert engine._run is not None
        return len({(host.node, host.owner) for host in engine._run.epochs.hosts if host is not None})

    engine = hg.Engine("cqc", f"{folder}/checkpoint", spark=spark, trigger_cores=None, replicas=2)
    Path(folder, "in").mkdir()
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{folder}/in');")
    engine.query("sums", "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k", sink=hg.callback(keep))
    engine.query("whole", "SELECT count(*) AS n, sum(v) AS s FROM s")
    engine.start()
    more()
    steps = [executors()]
    Path(folder, "started").touch()
    while late and executors() < 2:
        more()
    steps.append(executors())
    restores = engine.metrics()["restores"]
    for replicas in (3, 1):
        # These rows are on their way when the number changes.
        send()
        engine.rescale(replicas)
        more()
        steps.append(executors())
    wait_until(lambda: engine.results("whole").to_pylist()[-1]["n"] == files * ROWS)
    whole = engine.results("whole").to_pylist()[-1]
    engine.stop()
    spark.stop()
    print(json.dumps({"executors": steps, "restores": restores, "files": files, "sums": newest, "whole": whole}))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3] == "1")
