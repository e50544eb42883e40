"""Kills drivers and workers with −9 while files arrive: at the end every row is there exactly once."""

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.arriving import arrive_parquet
from tests.crash.driver import POINTS
from tests.waiting import LIMIT, wait_until

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM a (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 60 SECONDS)
USING parquet OPTIONS (path '{root}/a', maxFilesPerTrigger '2');
CREATE STREAM b (ts TIMESTAMP, k STRING, w INT, WATERMARK FOR ts AS ts - INTERVAL 60 SECONDS)
USING parquet OPTIONS (path '{root}/b', maxFilesPerTrigger '2');
CREATE FUNCTION doubled(v INT) RETURNS INT AS 'tests.crash.functions:doubled';
CREATE QUERY hot CLASS critical INTO parquet OPTIONS (path '{root}/out/hot') AS {hot};
CREATE QUERY sums INTO parquet OPTIONS (path '{root}/out/sums') AS {sums};
CREATE QUERY visits INTO parquet OPTIONS (path '{root}/out/visits') AS {visits};
CREATE QUERY pairs INTO parquet OPTIONS (path '{root}/out/pairs') AS {pairs};
CREATE QUERY lonely INTO parquet OPTIONS (path '{root}/out/lonely') AS {lonely};
CREATE QUERY twice INTO parquet OPTIONS (path '{root}/out/twice') AS {twice};
CREATE QUERY totals INTO console OPTIONS (numRows '1000') AS {totals};
"""
QUERIES = {
    "hot": "SELECT ts, k, v FROM a WHERE v > 70",
    "sums": "SELECT window(ts, '20 seconds', '10 seconds') AS win, k, sum(v) AS s, count(*) AS n, avg(v) AS m"
    " FROM a GROUP BY window(ts, '20 seconds', '10 seconds'), k",
    "visits": "SELECT session_window(ts, '3 seconds') AS visit, k, count(*) AS n FROM a"
    " GROUP BY session_window(ts, '3 seconds'), k",
    "pairs": "SELECT a.ts, b.ts AS bts, a.k, v, w FROM a JOIN b ON a.k = b.k"
    " AND b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 2 SECONDS",
    "lonely": "SELECT a.ts, a.k, v, w FROM a LEFT JOIN b ON a.k = b.k AND v = w"
    " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS",
    "twice": "SELECT ts, k, doubled(v) AS d FROM a WHERE v < 10",
    "totals": "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k",
}
START = 1_700_000_000_000_000


class Arrivals:
    """Numbered files of both streams. Event time grows with the number; disorder is far below the watermark's delay."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._random = random.Random(seed)
        self.number = 0

    def more(self, files: int) -> None:
        for _ in range(files):
            for stream, value in (("a", "v"), ("b", "w")):
                count = self._random.randint(20, 60)
                base = START + self.number * 2_000_000
                rows = {
                    "ts": pa.array(
                        [base + self._random.randrange(-3_000_000, 3_000_000) for _ in range(count)],
                        pa.timestamp("us", "UTC"),
                    ),
                    "k": [f"k{self._random.randrange(5)}" for _ in range(count)],
                    value: pa.array([self._random.randrange(100) for _ in range(count)], pa.int32()),
                }
                arrive_parquet(self._root / stream / f"{self.number:05d}.parquet", pa.table(rows))
            self.number += 1

    def last(self) -> None:
        """One row of every key, so that the final run shows every total."""
        times = pa.array([START + self.number * 2_000_000] * 5, pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "k": [f"k{n}" for n in range(5)], "v": pa.array([1] * 5, pa.int32())})
        arrive_parquet(self._root / "a" / f"{self.number:05d}.parquet", rows)


class Driver:
    """One life of the engine, in a session of its own."""

    def __init__(self, root: Path, point: str = "none", number: int = 1, once: bool = False, replicas: int = 1) -> None:
        arguments = ["run", str(root / "script.sql"), "--checkpoint", str(root / "ck"), *(["--once"] if once else [])]
        arguments += ["--replicas", str(replicas)]
        self._log = (root / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.driver", point, str(number), str(root / "fuse"), *arguments],
            stdout=subprocess.PIPE if once else self._log,
            stderr=self._log,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
            text=True,
        )
        self._root = root
        self._before = self.newest(root)

    @staticmethod
    def newest(root: Path) -> str:
        """The name of the newest commit; empty if there is none."""
        commits = root / "ck" / "commits"
        return max((f.name for f in commits.glob("*.json")), default="") if commits.exists() else ""

    def wait_for_commit(self) -> None:
        """Waits until this life has committed an epoch."""
        wait_until(lambda: self.newest(self._root) != self._before, self.process)

    def processes(self) -> dict[int, str]:
        """The commands of all processes of this life: the driver, its JVM, the daemon of Spark's workers, and these."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.getsid(int(entry.name)) == self.process.pid:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def workers(self) -> list[int]:
        """The Python workers of this life's Spark: children of the daemon, with its command."""
        daemons = [pid for pid, command in self.processes().items() if "headgate.spark.daemon" in command]
        return [pid for pid in daemons if _parent(pid) in daemons]

    def hosts(self) -> list[int]:
        """The processes of the hosts: supervisors, and the networks' processes, which have their command."""
        return [pid for pid, command in self.processes().items() if "headgate.spark.supervisor" in command]

    def kill(self) -> None:
        """The whole machine goes down: driver, JVM and workers."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def _parent(process: int) -> int:
    with contextlib.suppress(OSError):
        match = re.search(r"PPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        return int(match[1]) if match else 0
    return 0


def _expected(spark: Any, root: Path, name: str) -> Counter[str]:
    spark.read.parquet(str(root / "a")).createOrReplaceTempView("a")
    spark.read.parquet(str(root / "b")).createOrReplaceTempView("b")
    text = QUERIES[name].replace("doubled(v)", "v * 2")
    return Counter(map(repr, spark.sql(text).toArrow().to_pylist()))


def _crash(spark: Any, root: Path, seed: int, lives: Sequence[str], replicas: Sequence[int] = (1,)) -> None:
    """Lives of the engine that end by a crash, then a run to the end of all rows.

    A life is a point of `POINTS` at which it dies, or `random`, or `worker` or `host`: first Spark's Python workers, or
    a process of a host, are killed, which it survives. `worker before-commit` is both. The lives have the numbers of
    `replicas` in turn.
    """
    chance = random.Random(seed)
    (root / "script.sql").write_text(SCRIPT.format(root=root, **QUERIES))
    arrivals = Arrivals(root, seed)
    arrivals.more(2)
    for turn, life in enumerate(lives):
        point = next((word for word in life.split() if word in POINTS), None)
        number = chance.randint(1, 3)
        fuse = root / "fuse"
        fuse.unlink(missing_ok=True)
        driver = Driver(root, point or "none", number, replicas=replicas[turn % len(replicas)])
        arrivals.more(chance.randint(2, 4))
        if point is None or life.startswith(("worker", "host")):
            driver.wait_for_commit()
        if life.startswith(("worker", "host")):
            workers = driver.workers() if life.startswith("worker") else [chance.choice(driver.hosts())]
            assert workers, "the driver has committed an epoch and has no Python worker"
            for pid in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            arrivals.more(2)
        fuse.touch()
        if point is not None:
            # An epoch takes two files of a stream, and passes each point at least once.
            arrivals.more(2 * number)
            assert driver.process.wait(LIMIT) == -signal.SIGKILL, (root / "log").read_text()[-3000:]
        else:
            # Any moment: nothing is waited for.
            time.sleep(chance.uniform(0.0, 1.5))
        driver.kill()
    arrivals.last()
    final = Driver(root, once=True, replicas=replicas[len(lives) % len(replicas)])
    shown, _ = final.process.communicate(timeout=LIMIT)
    assert final.process.returncode == 0, (root / "log").read_text()[-3000:]
    for name in QUERIES:
        if name == "totals":
            continue
        rows = [row for f in (root / "out" / name).glob("*.parquet") for row in pq.read_table(f).to_pylist()]
        found, wanted = Counter(map(repr, rows)), _expected(spark, root, name)
        assert not wanted - found, f"{name} lost {list((wanted - found).items())[:3]}"
        assert not found - wanted, f"{name} has twice or wrong {list((found - wanted).items())[:3]}"
    totals = {m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"totals: k=(\w+) n=(\d+) s=(\d+)", shown)}
    wanted_totals = {r["k"]: (r["n"], r["s"]) for r in spark.sql(QUERIES["totals"]).toArrow().to_pylist()}
    assert totals == wanted_totals


@pytest.mark.spark
def test_a_worker_and_a_driver_crash(spark: Any, tmp_path: Path) -> None:
    """Spark delivers the last batch again; it is committed, and must be published."""
    _crash(spark, tmp_path, 11, ["worker before-publish"])


@pytest.mark.slow
@pytest.mark.spark
def test_crashes_with_two_replicas(spark: Any, tmp_path: Path) -> None:
    _crash(spark, tmp_path, 21, ["host before-commit", "worker after-commit", "random", "before-publish"], (2,))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_twenty_four_crashes(spark: Any, tmp_path: Path) -> None:
    _crash(spark, tmp_path, 12, ["random", *POINTS, "worker"] * 3)
