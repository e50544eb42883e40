"""Runs an engine on a cluster and changes the number of its replicas while rows wait, in a process of its own.

Usage: rescale.py MASTER FOLDER. A function takes 5 ms a row, an epoch at most 50 ms: the rows of all files wait when
the number changes. Prints the rows that waited before each change, and the results, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import headgate as hg
from headgate.spark.session import session
from tests.arriving import arrive_json
from tests.cluster.engine import KEYS, SETTINGS
from tests.waiting import wait_until

NUMBERS = (2, 4, 1, 3)
ROWS = 300
SCRIPT = """
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{folder}/in');
CREATE FUNCTION slowly(v INT) RETURNS INT AS 'tests.spark.functions:slowly';
CREATE QUERY sums AS SELECT k, count(*) AS n, sum(v + slowly(v)) AS s FROM s GROUP BY k;
CREATE QUERY whole AS SELECT count(*) AS n, sum(v + slowly(v)) AS s FROM s;
CREATE QUERY most AS SELECT k, s FROM (SELECT k, s, row_number() OVER (ORDER BY s DESC) AS place FROM
(SELECT k, sum(v + slowly(v)) AS s FROM s GROUP BY k)) WHERE place <= 2;
"""


def run(master: str, folder: str) -> None:
    spark = session("headgate-rescale", master, SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    sent = 0

    def more() -> None:
        nonlocal sent
        rows = [{"k": f"k{n % KEYS}", "v": n} for n in range(sent, sent + ROWS)]
        arrive_json(Path(folder, "in", f"{sent}.json"), rows)
        sent += ROWS

    def parts() -> list[str]:
        assert engine._run is not None
        return [part.name for part in engine._run.epochs.plan.run_queries]

    engine = hg.Engine("cqc", f"{folder}/checkpoint", spark=spark, trigger_cores=None, replicas=1, budget=0.05)
    engine.execute(SCRIPT.format(folder=folder))
    more()
    engine.start()
    waited = []
    for replicas in NUMBERS:
        wait_until(lambda: engine.metrics()["waiting"] > 0)
        waited.append(engine.metrics()["waiting"])
        engine.rescale(replicas)
        assert ("most/rows0" in parts()) == (replicas > 1)
        more()
    wait_until(lambda: engine.results("whole").to_pylist()[-1:] == [{"n": sent, "s": sum(range(sent))}])
    wait_until(lambda: sum(row["n"] for row in engine.results("sums").to_pylist()) == sent)
    highest = sorted((sum(range(key, sent, KEYS)) for key in range(KEYS)), reverse=True)[:2]
    wait_until(lambda: sorted((row["s"] for row in engine.results("most").to_pylist()), reverse=True) == highest)
    found = {name: engine.results(name).to_pylist() for name in ("sums", "most")}
    executors = len({(host.node, host.owner) for host in engine._run.epochs.hosts if host is not None})  # type: ignore[union-attr]
    engine.stop()
    spark.stop()
    print(json.dumps({"waited": waited, "sent": sent, "executors": executors, **found}))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
