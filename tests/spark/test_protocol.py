"""The commit protocol alone: after a crash at any operation of the storage and a restart, the results are the same.

On files, and in a model of an object store; the folders of sinks are local in both (`tests/connectors/test_folders.py`
crashes those in object stores).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from headgate.connectors.registry import RegisteredSinks, dead_letters, open_sink
from headgate.spark import resident
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.delivery import Delivery
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.host import Host
from headgate.spark.lanes import _columns
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.publisher import Publisher
from headgate.spark.required_columns import required_columns
from headgate.spark.written_files import WrittenFiles
from headgate.sql import Catalog
from tests.spark.crashing_files import Crash, CrashingFiles
from tests.spark.inline import InlineJobs, hosts_end, inline_host, lane_batch, packed
from tests.spark.object_store import Objects, ObjectStore

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE QUERY hot INTO parquet OPTIONS (path '{out}/hot') AS SELECT ts, k, v FROM s WHERE v > 50;
CREATE QUERY sums INTO parquet OPTIONS (path '{out}/sums') AS
SELECT window(ts, '4 seconds', '2 seconds') AS w, k, sum(v) AS total, count(*) AS n
FROM s GROUP BY window(ts, '4 seconds', '2 seconds'), k;
"""
BATCHES = 4


def _batch(number: int) -> pa.Table:
    base = 1_700_000_000_000_000 + number * 3_000_000
    times = [base + (i * 7919 % 4000) * 1000 for i in range(60)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": [f"k{i % 3}" for i in range(60)],
            "v": pa.array([(i * 31 + number) % 100 for i in range(60)], pa.int32()),
        }
    )


class Disk:
    """A place for checkpoints, of which driver and host see the same faults."""

    def __init__(self, objects: bool) -> None:
        self._objects = Objects() if objects else None
        self.crash_at(None, "")

    def crash_at(self, at: int | None, how: str) -> None:
        """From now on the operation of this number crashes."""
        store = self._objects
        self.handler = CrashingFiles(at, how) if store is None else ObjectStore(store, at, how)

    def checkpoint(self, uri: str) -> Checkpoint:
        return Checkpoint(uri, fs.PyFileSystem(self.handler))

    def written_files(self) -> WrittenFiles:
        return WrittenFiles(fs.PyFileSystem(self.handler)) if self._objects is None else WrittenFiles()


@pytest.fixture(params=["files", "objects"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(request.param == "objects")
    monkeypatch.setattr(resident, "Checkpoint", made.checkpoint)
    return made


def _run(root: Path, disk: Disk, done: int, host: Host) -> int:
    """One run of a driver, from the checkpoint on; returns the number of micro-batches that Spark counts as done."""
    catalog = Catalog()
    catalog.execute(SCRIPT.format(out=root / "out"))
    queries = tuple(dict(catalog.queries).values())
    wanted = required_columns(queries)
    packing = Packing({"s": _columns(catalog.streams["s"], wanted["s"])})
    checkpoint = disk.checkpoint(str(root / "ck"))
    delivery = Delivery(f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}", str(root), 10, str(root / "dead"))
    plan = Plan(queries, "cqc", packings={"main@1": packing}, delivery=delivery)
    epochs: list[Epoch] = []
    run = checkpoint.identity()
    driver = Epochs(InlineJobs(host), checkpoint, run, "token", epochs.append, None)
    driver.plan = plan
    publisher = Publisher(
        checkpoint,
        lambda q, sink: open_sink(None, q, sink, run),
        dead_letters(str(root / "dead"), run),
        lambda _: None,
        threaded=False,
        files=disk.written_files(),
    )
    for query in queries:
        publisher.open(query)
    publisher.republish()
    while done < BATCHES:
        parts = [packed(packing, "s", _batch(done).slice(0, 30)), packed(packing, "s", _batch(done).slice(30))]
        driver.run_batch(lane_batch("main", "main@1", done, parts))
        # From here on Spark may or may not have recorded the batch as done when a crash happens.
        while epochs:
            epoch = epochs.pop(0)
            publisher.put(epoch.commit, epoch.inline)
        checkpoint.clean(keep=1)
        done += 1
    if not driver.commit.complete:
        driver.run_backlog(finish=True)
        for epoch in epochs:
            publisher.put(epoch.commit, epoch.inline)
    checkpoint.clean(keep=1)
    return done


def _answers(root: Path) -> dict[str, list[Any]]:
    found = {}
    for query in ("hot", "sums"):
        rows = [row for f in sorted((root / "out" / query).glob("*.parquet")) for row in pq.read_table(f).to_pylist()]
        found[query] = sorted(map(repr, rows))
    return found


def _wanted() -> dict[str, list[str]]:
    """The expected rows, computed in plain Python: a row is late if its window has ended."""
    hot, sums = [], {}
    watermark = -(2**62)
    for number in range(BATCHES):
        newest = watermark
        for row in _batch(number).to_pylist():
            at = int(row["ts"].timestamp() * 1_000_000)
            newest = max(newest, at - 2_000_000)
            if row["v"] > 50:
                hot.append(row)
            for start in ((at // 2_000_000) * 2_000_000, (at // 2_000_000 - 1) * 2_000_000):
                if start + 4_000_000 > watermark:
                    total, n = sums.get((start, row["k"]), (0, 0))
                    sums[start, row["k"]] = (total + row["v"], n + 1)
        watermark = newest
    return {"hot": [repr(row) for row in hot], "sums": [f"{s} {k} {t} {n}" for (s, k), (t, n) in sums.items()]}


def _check(root: Path) -> None:
    answers, wanted = _answers(root), _wanted()
    assert answers["hot"] == sorted(wanted["hot"])
    rows = [row for f in (root / "out" / "sums").glob("*.parquet") for row in pq.read_table(f).to_pylist()]
    found = [f"{int(r['w']['start'].timestamp() * 1e6)} {r['k']} {r['total']} {r['n']}" for r in rows]
    assert sorted(found) == sorted(wanted["sums"])


def test_without_a_crash(tmp_path: Path, disk: Disk) -> None:
    _run(tmp_path, disk, 0, inline_host())
    _check(tmp_path)


# What is torn is begun and not done: a restart finds what it finds before the operation, or part of a file. Without the
# host, what it finds after an operation is what it finds before the next one.
WAYS = [
    pytest.param("before", False, marks=pytest.mark.slow),
    ("torn", False),
    pytest.param("after", False, marks=pytest.mark.slow),
    ("after", True),
]


@pytest.mark.parametrize(("how", "host_survives"), WAYS)
def test_a_crash_at_every_operation(tmp_path: Path, disk: Disk, how: str, host_survives: bool) -> None:
    _run(tmp_path / "count", disk, 0, inline_host())
    count = disk.handler.count
    assert count > 30
    for at in range(1, count + 1):
        with hosts_end():
            _crash(tmp_path / str(at), disk, at, how, host_survives)


def _crash(root: Path, disk: Disk, at: int, how: str, host_survives: bool) -> None:
    disk.crash_at(at, how)
    host = inline_host()
    with pytest.raises(Crash):
        _run(root, disk, 0, host)
    if not host_survives:
        host.close()
        host = inline_host()
    disk.crash_at(None, "")
    newest = disk.checkpoint(str(root / "ck")).newest()
    # Spark's log of batches may be one behind ours, never ahead: Spark then delivers the last batch again.
    done = 0 if newest is None else max(newest.lanes.get("main", -1), 0)
    _run(root, disk, done, host)
    _check(root)
