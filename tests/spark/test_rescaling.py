"""Rescaling on Spark: while running and between runs, with state that must move; every row counts exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.spark import balance
from headgate.spark.balance import Balance, BetterPlacement
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.placement import Placement, Route
from headgate.spark.placing import place
from headgate.spark.plan import Plan
from tests.arriving import arrive_json, arrive_parquet
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM a (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING parquet OPTIONS (path '{root}/a', maxFilesPerTrigger '1');
CREATE STREAM b (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING parquet OPTIONS (path '{root}/b', maxFilesPerTrigger '1');
CREATE QUERY hot INTO parquet OPTIONS (path '{root}/out/hot') AS SELECT ts, k, v FROM a WHERE v > 70;
CREATE QUERY sums INTO parquet OPTIONS (path '{root}/out/sums') AS
SELECT window(ts, '10 seconds') AS w, k, sum(v) AS s, count(*) AS n FROM a GROUP BY window(ts, '10 seconds'), k;
CREATE QUERY pairs INTO parquet OPTIONS (path '{root}/out/pairs') AS
SELECT a.ts, b.ts AS bts, a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k
AND b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 2 SECONDS;
CREATE QUERY mixed INTO parquet OPTIONS (path '{root}/out/mixed') AS
SELECT p.w, p.v, p.n, b.ts, b.k FROM (SELECT w, window_time(w) AS t, v, n FROM
(SELECT window(ts, '10 seconds') AS w, v, count(*) AS n FROM a GROUP BY window(ts, '10 seconds'), v)) p
LEFT JOIN b ON p.n = b.v AND b.ts BETWEEN p.t - INTERVAL 10 SECONDS AND p.t;
CREATE QUERY totals AS SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k;
CREATE QUERY whole AS SELECT count(*) AS n, sum(v) AS s FROM a;
"""
EXPECTED = {
    "hot": "SELECT ts, k, v FROM a WHERE v > 70",
    "sums": "SELECT window(ts, '10 seconds') AS w, k, sum(v) AS s, count(*) AS n FROM a GROUP BY 1, 2",
    "pairs": "SELECT a.ts, b.ts AS bts, a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k"
    " AND b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 2 SECONDS",
    "mixed": "SELECT p.w, p.v, p.n, b.ts, b.k FROM (SELECT w, window_time(w) AS t, v, n FROM"
    " (SELECT window(ts, '10 seconds') AS w, v, count(*) AS n FROM a GROUP BY window(ts, '10 seconds'), v)) p"
    " LEFT JOIN b ON p.n = b.v AND b.ts BETWEEN p.t - INTERVAL 10 SECONDS AND p.t",
    "totals": "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k",
    "whole": "SELECT count(*) AS n, sum(v) AS s FROM a",
}
ROWS = 40
START = 1_700_000_000_000_000


def arrive(root: Path, number: int) -> None:
    """File `number` of both streams."""
    for stream, step in (("a", 7919), ("b", 6007)):
        rows = {
            "ts": pa.array(
                [START + number * 3_000_000 + i * step % 4000 * 1000 for i in range(ROWS)], pa.timestamp("us", "UTC")
            ),
            "k": [f"k{(i * step + number) % 11}" for i in range(ROWS)],
            "v": pa.array([(i * step + number * 13) % 100 for i in range(ROWS)], pa.int32()),
        }
        arrive_parquet(root / stream / f"{number:03d}.parquet", pa.table(rows))


def engine_of(spark: Any, root: Path, replicas: int) -> hg.Engine:
    engine = hg.Engine("cqc", str(root / "ck"), spark=spark, replicas=replicas)
    engine.execute(SCRIPT.format(root=root))
    return engine


def check(spark: Any, root: Path, engine: hg.Engine) -> None:
    for stream in ("a", "b"):
        spark.read.parquet(str(root / stream)).createOrReplaceTempView(stream)
    for name, select in EXPECTED.items():
        wanted = Counter(map(repr, spark.sql(select).toArrow().to_pylist()))
        folder = root / "out" / name
        if folder.exists():
            rows = [row for f in sorted(folder.glob("*.parquet")) for row in pq.read_table(f).to_pylist()]
        else:
            rows = engine.results(name).to_pylist()
        found = Counter(map(repr, rows))
        assert found == wanted, (name, list((wanted - found).items())[:3], list((found - wanted).items())[:3])


def counted(engine: hg.Engine, files: int) -> bool:
    rows = engine.results("whole").to_pylist()
    return bool(rows) and rows[-1]["n"] == files * ROWS


def sends_rows(engine: hg.Engine) -> bool:
    """Whether the rows of a query cross an exchange: those of an aggregate to the keys of a join with a stream."""
    assert engine._run is not None
    return any(part.name == "mixed/rows0" for part in engine._run.epochs.plan.run_queries)


def _rescaled(spark: Any, root: Path, running: list[int], between: list[int], last: int) -> None:
    """An engine that starts with one replica and is rescaled while it runs, then runs with other numbers, then one that
    reads the rest and ends. The results are those of the whole."""
    files = 0

    def more(engine: hg.Engine, count: int) -> None:
        nonlocal files
        for _ in range(count):
            arrive(root, files)
            files += 1
        wait_until(lambda: counted(engine, files))

    arrive(root, files)
    files += 1
    engine = engine_of(spark, root, 1)
    engine.start()
    try:
        for replicas in running:
            more(engine, 1)
            engine.rescale(replicas)
            assert engine.replicas == replicas
            assert sends_rows(engine) == (replicas > 1)
        more(engine, 1)
        assert len(engine.metrics().get("replicas", [0])) == running[-1]
    finally:
        engine.stop()
    for replicas in between:
        engine = engine_of(spark, root, replicas)
        engine.start()
        try:
            more(engine, 1)
        finally:
            engine.stop()
    engine = engine_of(spark, root, last)
    # The memory of an engine begins with its start: all keys change once more.
    arrive(root, files)
    engine.run_once()
    check(spark, root, engine)


@pytest.mark.slow
def test_rescaled_while_running(spark: Any, tmp_path: Path) -> None:
    _rescaled(spark, tmp_path, [2], [], 1)


@pytest.mark.slow
def test_rescaled_often_and_between_runs(spark: Any, tmp_path: Path) -> None:
    _rescaled(spark, tmp_path, [2, 3, 1, 2], [1, 2], 4)


@pytest.mark.slow
def test_rescaled_while_rows_wait(spark: Any, tmp_path: Path) -> None:
    """A function takes 5 ms a row, an epoch at most 50 ms: the rows of all files wait when the number changes."""
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark, replicas=1, budget=0.05)
    engine.execute(
        f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE FUNCTION slowly(v INT) RETURNS INT AS 'tests.spark.functions:slowly';
        CREATE QUERY sums AS SELECT k, count(*) AS n, sum(v + slowly(v)) AS s FROM s GROUP BY k;
        CREATE QUERY whole AS SELECT count(*) AS n, sum(v + slowly(v)) AS s FROM s"""
    )
    sent = 0

    def more(count: int) -> None:
        nonlocal sent
        arrive_json(tmp_path / "in" / f"{sent}.json", [{"k": f"k{n % 7}", "v": n} for n in range(sent, sent + count)])
        sent += count

    more(400)
    engine.start()
    try:
        for replicas in (2, 3, 1):
            wait_until(lambda: engine.metrics()["waiting"] > 0)
            engine.rescale(replicas)
            more(400)
        wait_until(lambda: engine.results("whole").to_pylist()[-1:] == [{"n": sent, "s": sum(range(sent))}])
        found = {row["k"]: (row["n"], row["s"]) for row in engine.results("sums").to_pylist()}
    finally:
        engine.stop()
    keys = {f"k{key}": range(key, sent, 7) for key in range(7)}
    assert found == {key: (len(values), sum(values)) for key, values in keys.items()}


@pytest.mark.slow
def test_a_busy_replica_gives_queries_away(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision is tested in `test_balance.py`; here it is made at once, while rows arrive."""
    engine = engine_of(spark, tmp_path, 2)
    arrive(tmp_path, 0)
    engine.start()
    try:
        wait_until(lambda: counted(engine, 1))
        assert engine._run is not None
        before = engine._run.epochs.plan.placement
        assert before is not None
        whole = {name: dict.fromkeys(routes, Route.to(1)) for name, routes in before.routes.items()}
        other = [BetterPlacement(Placement(2, whole), 2.0, 1.0)]
        monkeypatch.setattr(Balance, "better", lambda *_: other.pop() if other else None)
        for number in range(1, 4):
            arrive(tmp_path, number)
            wait_until(lambda number=number: counted(engine, number + 1))  # type: ignore[misc]
        wait_until(lambda: engine._run is not None and engine._run.epochs.plan.placement != before)
        explained = engine.explain().placement
        assert explained is not None
        assert set(explained.homes.values()) == {1}, "the placement in force"
    finally:
        engine.stop()
    arrive(tmp_path, 4)
    engine = engine_of(spark, tmp_path, 2)
    engine.run_once()
    check(spark, tmp_path, engine)


def arrive_skewed(root: Path, number: int) -> None:
    """File `number` of both streams: one key in three rows of four, and all others."""
    for stream in ("a", "b"):
        rows = {
            "ts": pa.array([START + number * 3_000_000 + i * 90_000 for i in range(ROWS)], pa.timestamp("us", "UTC")),
            "k": ["hot" if i % 4 else f"k{(i + number) % 7}" for i in range(ROWS)],
            "v": pa.array([(i * 7919 + number * 13) % 100 for i in range(ROWS)], pa.int32()),
        }
        arrive_parquet(root / stream / f"{number:03d}.parquet", pa.table(rows))


@pytest.mark.slow
def test_key_slots_move_while_rows_flow(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured rows decide; the clock is not asked, so that it need not be waited for."""
    monkeypatch.setattr(balance, "BUSY", 0.0)
    monkeypatch.setattr(balance, "PAYS", 0.0)
    monkeypatch.setattr(balance, "PAUSE", 0.0)
    monkeypatch.setattr(balance, "WINDOW", 1e9)
    engine = engine_of(spark, tmp_path, 2)
    files = 0

    def more() -> None:
        nonlocal files
        arrive_skewed(tmp_path, files)
        files += 1
        wait_until(lambda: counted(engine, files))

    engine.start()
    try:
        while files < 3 or not any(each["kind"] == "placement" for each in engine.decisions()):
            more()
        assert engine._run is not None
        plan = engine._run.epochs.plan
        assert plan.placement is not None
        assert plan.placement.owners
        assert plan.placement.routes == place(plan.run_queries, 2).routes
        for _ in range(3):
            more()
        assert round(sum(each["key_share"] for each in engine.metrics()["replicas"]), 6) == 1.0
    finally:
        engine.stop()

    def owners() -> tuple[int, ...]:
        checkpoint = Checkpoint(str(tmp_path / "ck"))
        commit = checkpoint.newest()
        assert commit is not None
        placement = Plan.load(checkpoint, commit.plan).placement
        assert placement is not None
        return placement.owners

    # Slots may move until the engine has stopped. A restart continues with the table of the checkpoint.
    last = owners()
    assert last
    monkeypatch.setattr(Balance, "better", lambda *_: None)
    arrive_skewed(tmp_path, files)
    engine = engine_of(spark, tmp_path, 2)
    engine.run_once()
    assert owners() == last
    check(spark, tmp_path, engine)
