"""The commit protocol with several replicas, and while their number changes: after a crash at any operation of the
storage and a restart, the results are the same."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from headgate.connectors.registry import dead_letters, open_sink
from headgate.spark import resident
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.host import Host
from headgate.spark.publisher import Publisher
from headgate.spark.written_files import WrittenFiles
from tests.spark.crashing_files import Crash, CrashingFiles
from tests.spark.inline import hosts_end
from tests.spark.inline_replicas import ReplicaRun

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE QUERY hot INTO parquet OPTIONS (path '{out}/hot') AS SELECT ts, k, v FROM s WHERE v > 50;
CREATE QUERY sums INTO parquet OPTIONS (path '{out}/sums') AS
SELECT window(ts, '4 seconds') AS w, k, sum(v) AS total, count(*) AS n FROM s GROUP BY window(ts, '4 seconds'), k;
CREATE QUERY whole INTO parquet OPTIONS (path '{out}/whole') AS
SELECT window(ts, '4 seconds') AS w, sum(v) AS total, count(*) AS n FROM s GROUP BY window(ts, '4 seconds');
CREATE QUERY alike INTO parquet OPTIONS (path '{out}/alike') AS SELECT p.w, p.k, q.k AS other FROM
(SELECT window(ts, '4 seconds') AS w, k, count(*) AS n FROM s GROUP BY window(ts, '4 seconds'), k) p JOIN
(SELECT window(ts, '4 seconds') AS w, k, count(*) AS n FROM s GROUP BY window(ts, '4 seconds'), k) q
ON p.w = q.w AND p.n = q.n AND p.k < q.k;
"""
BATCHES = 3


def _batch(number: int) -> pa.Table:
    base = 1_700_000_000_000_000 + number * 3_000_000
    times = [base + i * 7919 % 3000 * 1000 for i in range(30)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": [f"k{i % 3}" for i in range(30)],
            "v": pa.array([(i * 31 + number) % 100 for i in range(30)], pa.int32()),
        }
    )


class Disk:
    """The files of a checkpoint, of which driver and hosts see the same faults."""

    def __init__(self) -> None:
        self.crash_at(None, "")

    def crash_at(self, at: int | None, how: str) -> None:
        """From now on the operation of this number crashes."""
        self.handler = CrashingFiles(at, how)

    def checkpoint(self, uri: str) -> Checkpoint:
        return Checkpoint(uri, fs.PyFileSystem(self.handler))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(resident, "Checkpoint", made.checkpoint)
    return made


def _run(root: Path, disk: Disk, done: int, hosts: dict[int, Host]) -> None:
    """One run of a driver, from the checkpoint on, after the micro-batches that Spark counts as done. Before the last
    batch two replicas become three."""
    checkpoint = disk.checkpoint(str(root / "ck"))
    script = SCRIPT.format(out=root / "out")
    run = ReplicaRun(root, script, 2 if done < BATCHES - 1 else 3, checkpoint, hosts)
    identity = checkpoint.identity()
    publisher = Publisher(
        checkpoint,
        lambda query, sink: open_sink(None, query, sink, identity),
        dead_letters(str(root / "dead"), identity),
        lambda _: None,
        threaded=False,
        files=WrittenFiles(fs.PyFileSystem(disk.handler)),
    )
    for query in run.catalog.queries.values():
        publisher.open(query)
    publisher.republish()
    assert "alike/rows0" in {query.name for query in run.epochs.plan.run_queries}, "rows cross an exchange"

    def publish() -> None:
        while run.done:
            epoch = run.done.pop(0)
            publisher.put(epoch.commit, epoch.inline)
        checkpoint.clean(keep=1)

    publish()
    for number in range(done, BATCHES):
        if number == BATCHES - 1:
            run.rescale(3)
            publish()
        run.bring(number, "s", _batch(number).slice(0, 15), _batch(number).slice(15))
        publish()
    if not run.epochs.commit.complete:
        run.finish()
    publish()


def _rows(root: Path, query: str) -> list[dict[str, Any]]:
    return [row for f in sorted((root / "out" / query).glob("*.parquet")) for row in pq.read_table(f).to_pylist()]


def _check(root: Path) -> None:
    """Nothing is late: each batch begins 3 s after the one before, whose rows are within 3 s."""
    every = [row for number in range(BATCHES) for row in _batch(number).to_pylist()]
    hot = Counter(repr(row) for row in every if row["v"] > 50)
    assert Counter(map(repr, _rows(root, "hot"))) == hot
    wanted: Counter[tuple[int, str]] = Counter()
    counts: Counter[tuple[int, str]] = Counter()
    for row in every:
        for key in (row["k"], ""):
            group = (int(row["ts"].timestamp()) // 4 * 4, key)
            wanted[group] += row["v"]
            counts[group] += 1
    found = [*_rows(root, "sums"), *({**row, "k": ""} for row in _rows(root, "whole"))]
    assert sorted((int(row["w"]["start"].timestamp()), row["k"], row["total"], row["n"]) for row in found) == sorted(
        (*group, total, counts[group]) for group, total in wanted.items()
    )
    alike = [(int(row["w"]["start"].timestamp()), row["k"], row["other"]) for row in _rows(root, "alike")]
    assert sorted(alike) == sorted(
        (window, key, other)
        for (window, key), (later, other) in product(counts, counts)
        if window == later and "" < key < other and counts[window, key] == counts[window, other]
    )


def _counted(root: Path, disk: Disk) -> int:
    """The number of operations of a run without a crash."""
    _run(root, disk, 0, {})
    _check(root)
    return disk.handler.count


def _crash(root: Path, disk: Disk, at: int, how: str, hosts_survive: bool) -> None:
    hosts: dict[int, Host] = {}
    disk.crash_at(at, how)
    with pytest.raises(Crash):
        _run(root, disk, 0, hosts)
    if not hosts_survive:
        for host in hosts.values():
            host.close()
        hosts = {}
    disk.crash_at(None, "")
    newest = disk.checkpoint(str(root / "ck")).newest()
    # Spark's log of batches may be one behind ours: Spark then delivers the last batch again.
    done = 0 if newest is None else max(newest.lanes.get("main", -1), 0)
    _run(root, disk, done, hosts)
    _check(root)


def test_a_crash_at_some_operations(tmp_path: Path, disk: Disk) -> None:
    count = _counted(tmp_path / "count", disk)
    for at in range(1, count + 1, 37):
        with hosts_end():
            _crash(tmp_path / str(at), disk, at, ("before", "torn", "after")[at % 3], at % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "hosts_survive"), [("before", False), ("torn", False), ("after", False), ("after", True)]
)
def test_a_crash_at_every_operation(tmp_path: Path, disk: Disk, how: str, hosts_survive: bool) -> None:
    for at in range(1, _counted(tmp_path / "count", disk) + 1):
        with hosts_end():
            _crash(tmp_path / str(at), disk, at, how, hosts_survive)
