"""Kills −9 on a cluster with two replicas, at random moments: hosts, Python workers, executors, workers, the driver."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.engine import SETTINGS
from tests.cluster.standalone import ROOT, StandaloneCluster, environment, standalone
from tests.crash.test_crash import QUERIES, SCRIPT, Arrivals
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]
KINDS = {
    "host": "headgate.spark.supervisor",
    "python": "headgate.spark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "",
    "driver": "",
}


EXCHANGED = {
    "windows": "SELECT window(ts, '10 seconds') AS win, sum(v) AS s, count(*) AS n FROM a"
    " GROUP BY window(ts, '10 seconds')",
    "highest": "SELECT win, ts, k, v FROM (SELECT window(ts, '10 seconds') AS win, ts, k, v, row_number() OVER"
    " (PARTITION BY window(ts, '10 seconds') ORDER BY v DESC, ts, k) AS place FROM a) WHERE place <= 3",
}
"""Queries whose rows come together after an exchange."""


class Run:
    """`headgate run` on the cluster, in a session of its own."""

    def __init__(self, root: Path, cluster: StandaloneCluster, once: bool = False) -> None:
        settings = {**SETTINGS, "spark.log.level": "ERROR"}
        options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
        arguments = ["run", str(root / "script.sql"), "--checkpoint", str(root / "ck"), "--master", cluster.master]
        self._log = (root / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headgate.cli.main", *arguments, "--replicas", "2", *(["--once"] if once else [])],
            stdout=self._log,
            stderr=self._log,
            cwd=ROOT,
            env={**environment(), "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"},
            start_new_session=True,
        )
        self._commits = root / "ck" / "commits"

    def newest(self) -> str:
        return max((file.name for file in self._commits.glob("*.json")), default="") if self._commits.exists() else ""

    def wait_for_commit(self, after: str) -> None:
        wait_until(lambda: self.newest() > after, self.process)

    def kill(self) -> None:
        """Driver and JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def _kill(cluster: StandaloneCluster, run: Run, kind: str, chance: random.Random) -> bool:
    """Kills a process of this kind; False if there is none."""
    if kind == "driver":
        run.kill()
        return True
    if kind == "worker":
        number = chance.randrange(len(cluster.workers))
        cluster.workers[number].kill()
        cluster.workers[number].wait()
        cluster.workers[number] = cluster.start_worker(number)
        return True
    found = [pid for pid, command in cluster.processes().items() if KINDS[kind] in command]
    if not found:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(found), signal.SIGKILL)
    return True


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [5, 50])
def test_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    root = tmp_path / "run"
    root.mkdir()
    text = SCRIPT.format(root=root, **QUERIES)
    text += "".join(
        f"CREATE QUERY {name} INTO parquet OPTIONS (path '{root}/out/{name}') AS {select};\n"
        for name, select in EXCHANGED.items()
    )
    (root / "script.sql").write_text(text)
    arrivals = Arrivals(root, kills)
    arrivals.more(2)
    killed: Counter[str] = Counter()
    with standalone(tmp_path / "cluster") as cluster:
        run = Run(root, cluster)
        run.wait_for_commit("")
        kinds = list(KINDS) * (kills // len(KINDS) + 1)
        for kind in kinds[:kills]:
            newest = run.newest()
            arrivals.more(2)
            # Any moment of the epochs that follow: nothing is waited for.
            time.sleep(chance.uniform(0.0, 2.0))
            killed[kind] += _kill(cluster, run, kind, chance)
            if kind == "driver":
                run = Run(root, cluster)
            arrivals.more(1)
            run.wait_for_commit(newest)
        run.kill()
        arrivals.last()
        before = (root / "log").stat().st_size
        final = Run(root, cluster, once=True)
        assert final.process.wait(LIMIT) == 0, (root / "log").read_text()[-3000:]
        shown = (root / "log").read_bytes()[before:].decode()
    assert sum(killed.values()) >= kills - 1, killed
    _check(root, shown)


def _check(root: Path, shown: str) -> None:
    """The results in folders, and the totals of the last run on the console, against Spark's, in a session of this
    process."""
    from headgate.spark.session import local_session

    spark = local_session("headgate-kills")
    for stream in ("a", "b"):
        spark.read.parquet(str(root / stream)).createOrReplaceTempView(stream)
    totals = {m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"totals: k=(\w+) n=(\d+) s=(\d+)", shown)}
    assert totals == {r["k"]: (r["n"], r["s"]) for r in spark.sql(QUERIES["totals"]).toArrow().to_pylist()}
    for name, select in (QUERIES | EXCHANGED).items():
        if name == "totals":
            continue
        rows = [row for f in (root / "out" / name).glob("*.parquet") for row in pq.read_table(f).to_pylist()]
        found = Counter(map(repr, rows))
        wanted = Counter(map(repr, spark.sql(select.replace("doubled(v)", "v * 2")).toArrow().to_pylist()))
        assert not wanted - found, f"{name} lost {list((wanted - found).items())[:3]}"
        assert not found - wanted, f"{name} has twice or wrong {list((found - wanted).items())[:3]}"
