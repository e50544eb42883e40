"""Queries whose rows cross an exchange, without Spark: from version to version, beside others, and when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.graph.queries import Query
from headgate.spark.exchange import divided
from headgate.spark.moving import must_move
from headgate.spark.placement import SPREAD
from headgate.spark.plan import Plan
from headgate.spark.replicas import parts_of, placed
from headgate.sql import Catalog
from tests.spark import inline_replicas
from tests.spark.inline_replicas import ReplicaRun

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
"""
COUNTS = "SELECT window(ts, '4 seconds') AS w, k, count(*) AS n FROM s GROUP BY window(ts, '4 seconds'), k"
SELECT = f"SELECT p.w, p.k, q.k AS other, p.n FROM ({COUNTS}) p LEFT JOIN ({COUNTS}) q ON p.w = q.w AND p.n = q.n + 1"
SCRIPT = f"{STREAM} CREATE QUERY pairs AS {SELECT};"
BATCHES = 4


def rows(number: int, count: int = 60) -> pa.Table:
    base = 1_700_000_000_000_000 + number * 3_000_000
    return pa.table(
        {
            "ts": pa.array([base + i * 7919 % 4000 * 1000 for i in range(count)], pa.timestamp("us", "UTC")),
            "k": [f"k{i * i % 17}" for i in range(count)],
            "v": pa.array([(i * 31 + number) % 100 for i in range(count)], pa.int32()),
        }
    )


def started(root: Path, replicas: int, script: str = SCRIPT) -> ReplicaRun:
    return ReplicaRun(root, script, replicas, kept=1000)


def results(*runs: ReplicaRun) -> list[str]:
    return sorted(repr(row) for run in runs for row in run.results("pairs"))


@pytest.fixture
def wanted(tmp_path: Path) -> list[str]:
    """The results of one replica."""
    run = started(tmp_path / "alone", 1)
    for number in range(BATCHES):
        run.bring(number, "s", rows(number))
    run.finish()
    found = results(run)
    assert len(found) > 30
    return found


def names(run: ReplicaRun) -> list[str]:
    return [query.name for query in run.epochs.plan.run_queries]


def as_before(
    queries: Sequence[Query], replicas: int, before: Plan | None = None, costs: Mapping[str, float] | None = None
) -> tuple[Query, ...]:
    """`parts_of` in the versions in which no rows crossed."""
    found = [part for query in queries for part in divided(query, rows=False).parts] if replicas > 1 else []
    return tuple(found) if len(found) > len(queries) else ()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_checkpoint_of_a_version_that_sent_no_rows_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: list[str], number: int
) -> None:
    """With as many replicas as before the query stays whole, with its state; with others it is divided."""
    with monkeypatch.context() as earlier:
        earlier.setattr(inline_replicas, "parts_of", as_before)
        first = started(tmp_path, 2)
        first.bring(0, "s", rows(0))
        first.bring(1, "s", rows(1))
        assert names(first) == ["pairs"]
    second = started(tmp_path, number)
    assert names(second) == (["pairs/rows0", "pairs/rows1", "pairs"] if number == 3 else ["pairs"])
    second.bring(2, "s", rows(2))
    second.rescale(2 if number == 3 else 4)
    assert len(names(second)) == 3
    second.bring(3, "s", rows(3))
    second.finish()
    assert results(first, second) == wanted


def test_rows_that_are_on_their_way_when_the_driver_ends_arrive(tmp_path: Path, wanted: list[str]) -> None:
    """The commit names the rows that fragments have sent: the next run receives them, with any number of replicas."""
    first = started(tmp_path, 2)
    for number in range(BATCHES - 1):
        first.bring(number, "s", rows(number))
    first.settle = lambda: None  # type: ignore[method-assign]
    first.bring(BATCHES - 1, "s", rows(BATCHES - 1))
    while not first.epochs.commit.exchange:
        first.epochs.run_backlog()
    second = started(tmp_path, 3)
    second.finish()
    assert results(first, second) == wanted


def test_a_query_that_is_added_leaves_the_others_divided_as_they_are() -> None:
    catalog = Catalog()
    catalog.execute(SCRIPT)
    pairs = catalog.queries["pairs"]
    some = COUNTS.replace("FROM s", "FROM s WHERE v < {0}")
    light = [catalog.query(f"light{n}", f"SELECT DISTINCT w, n FROM ({some.format(n)})") for n in range(30)]
    alone = parts_of([pairs], 2)
    assert [part.name for part in alone] == ["pairs/rows0", "pairs/rows1", "pairs"]
    plan = Plan((pairs,), "fifo", parts=alone, placement=placed(alone, 2, None))
    # Among many it would not be worth it, and is not.
    assert not parts_of([pairs, *light], 2)
    parts = parts_of([pairs, *light], 2, plan)
    assert [part.name for part in parts] == [*(part.name for part in alone), *(each.name for each in light)]
    after = Plan((pairs, *light), "fifo", parts=parts, placement=placed(parts, 2, plan))
    assert not must_move(plan, after)
    # What runs whole stays whole.
    many = Plan((pairs, *light), "fifo", placement=placed([pairs, *light], 2, None))
    assert not parts_of([pairs], 2, many)
    assert parts_of([pairs], 3, many)


def test_measured_costs_decide_whether_rows_cross() -> None:
    catalog = Catalog()
    catalog.execute(SCRIPT)
    other = catalog.query("other", f"SELECT DISTINCT w, n FROM ({COUNTS})")
    given = [catalog.queries["pairs"], other]
    found = [part.name for part in parts_of(given, 2, costs={"pairs/rows0": 0.01, "pairs": 0.01, "other": 0.9})]
    assert found == ["pairs", "other/rows0", "other"]


def test_a_key_that_fails_before_the_exchange_fails_the_query(tmp_path: Path) -> None:
    text = "SELECT x.k, y.v FROM s x JOIN s y ON CAST(x.k AS INT) = y.v AND y.ts BETWEEN x.ts AND x.ts"
    run = started(tmp_path, 2, f"{STREAM} CREATE QUERY pairs AS {text}; CREATE QUERY every AS SELECT v FROM s;")
    assert "pairs/rows0" in names(run)
    run.bring(0, "s", rows(0))
    [failure] = run.epochs.commit.failures
    assert failure["query"] == "pairs"
    assert "CAST_INVALID_INPUT" in failure["error"]
    run.bring(1, "s", rows(1))
    run.finish()
    assert len(run.results("every")) == 120


def test_results_that_may_go_anywhere_go_to_one_replica(tmp_path: Path) -> None:
    """The second grouping cannot be split by the key of the first: its results come from an exchange."""
    text = (
        f"SELECT k, n FROM ({COUNTS}) UNION ALL SELECT CAST(v AS STRING), n FROM ({COUNTS.replace('k,', 'v,')[:-1]}v)"
    )
    script = f"{STREAM} CREATE QUERY pairs AS {text};"
    found = []
    for replicas in (1, 3):
        run = started(tmp_path / str(replicas), replicas, script)
        for number in range(BATCHES):
            run.bring(number, "s", rows(number))
        if replicas == 3:
            assert run.epochs.plan.placement is not None
            assert run.epochs.plan.placement.routes["pairs"]["pairs/rows0"] == SPREAD
        run.finish()
        found.append(results(run))
    assert found[0] == found[1]
    assert len(found[0]) > 100


EQUAL = f"""{STREAM} CREATE QUERY pairs AS
SELECT p.w, p.k, q.k AS other FROM ({COUNTS}) p JOIN ({COUNTS}) q ON p.w = q.w AND p.n = q.n AND p.k <> q.k;
"""


def as_twice(
    queries: Sequence[Query], replicas: int, before: Plan | None = None, costs: Mapping[str, float] | None = None
) -> tuple[Query, ...]:
    """`parts_of` in the versions in which equal fragments each sent their rows."""
    return tuple(part for query in queries for part in divided(query, once=False).parts)


@pytest.mark.parametrize("number", [2, 3])
def test_equal_rows_are_sent_once_also_after_a_version_that_sent_them_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    alone = started(tmp_path / "alone", 1, EQUAL)
    for batch in range(BATCHES):
        alone.bring(batch, "s", rows(batch))
    alone.finish()
    assert len(results(alone)) > 30
    twice, once = ["pairs/rows0", "pairs/rows1", "pairs"], ["pairs/rows0", "pairs"]
    with monkeypatch.context() as earlier:
        earlier.setattr(inline_replicas, "parts_of", as_twice)
        first = started(tmp_path, 2, EQUAL)
        first.bring(0, "s", rows(0))
        first.bring(1, "s", rows(1))
        assert names(first) == twice
    second = started(tmp_path, number, EQUAL)
    assert names(second) == (twice if number == 2 else once), "with as many replicas no state moves"
    second.bring(2, "s", rows(2))
    second.rescale(5 - number)
    assert names(second) == once
    second.bring(3, "s", rows(3))
    second.finish()
    assert results(first, second) == results(alone)


OTHER = STREAM.replace("STREAM s", "STREAM t").replace("'unused')", "'unused') WITH (idle = '10 seconds')")
SILENT = f"""{STREAM} {OTHER}
CREATE QUERY pairs AS SELECT p.k, q.k AS other, p.n FROM ({COUNTS}) p
LEFT JOIN ({COUNTS.replace("FROM s", "FROM t")}) q ON p.w = q.w AND p.n = q.n;
"""


def timed(*pairs: tuple[float, str]) -> pa.Table:
    """Rows at these seconds, with these keys."""
    times = pa.array([1_700_000_000_000_000 + int(second * 1e6) for second, _ in pairs], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": [k for _, k in pairs], "v": pa.array([0] * len(pairs), pa.int32())})


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_stream_that_is_idle_holds_up_no_rows_of_an_exchange(tmp_path: Path, replicas: int) -> None:
    run = started(tmp_path, replicas, SILENT)
    assert names(run) == (["pairs/rows0", "pairs/rows1", "pairs"] if replicas > 1 else ["pairs"])
    run.bring(0, "s", timed((0, "a"), (1, "b"), (1.5, "b")))
    run.bring(1, "t", timed((0, "x"), (1, "x")))
    run.bring(2, "s", timed((20, "c")))
    run.wait(9)
    assert run.results("pairs") == [], "t has been silent for 9 seconds"
    run.wait(1)
    assert sorted(run.results("pairs")) == [("a", None, 1), ("b", "x", 2)], "t follows s, whose watermark is 18 s"
    # It comes back: its row of the first window is late, where another replica joins it too.
    run.bring(3, "t", timed((2, "y"), (21, "z")))
    run.finish()
    assert sorted(run.results("pairs")) == [("a", None, 1), ("b", "x", 2), ("c", "z", 1)]
