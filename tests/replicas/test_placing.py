"""By which keys queries are split, and where the others run."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from headgate.explanation.explained import explain
from headgate.explanation.wording import expression
from headgate.expressions.hashing import hashed
from headgate.expressions.xxhash64 import xxhash64
from headgate.graph.as_json import read, written
from headgate.graph.expressions import Column
from headgate.graph.queries import Query
from headgate.graph.types import INT
from headgate.spark.key_slots import owners
from headgate.spark.moving import must_move
from headgate.spark.placement import SPREAD, Placement, Route
from headgate.spark.placing import place
from headgate.spark.plan import Plan
from headgate.spark.replicas import placed
from headgate.sql import Catalog

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT, x DOUBLE, b BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
CREATE STREAM u (ut TIMESTAMP, uk STRING, m BIGINT, y DOUBLE, WATERMARK FOR ut AS ut - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
"""
NAMES = {"s": ["ts", "k", "n", "x", "b"], "u": ["ut", "uk", "m", "y"]}


def queries(*texts: str) -> list[Query]:
    catalog = Catalog()
    catalog.execute(STREAMS)
    return [catalog.query(f"q{number}", text) for number, text in enumerate(texts)]


def route(placement: Placement, query: str) -> str:
    """The routes of a query in words."""
    return "; ".join(
        f"{stream} by {', '.join(expression(key, NAMES[stream]) for key in found.keys)}"
        if found.kind == "key"
        else f"{stream} {found.kind}"
        for stream, found in sorted(placement.routes[query].items())
    )


W = "window(ts, '10 seconds')"
JOIN = "ut BETWEEN ts AND ts + INTERVAL 5 SECONDS"
SPLIT = {
    "SELECT n FROM s WHERE n > 3": "s spread",
    f"SELECT k, count(*) AS c FROM s GROUP BY {W}, k": "s by k",
    "SELECT k, count(*) AS c FROM s GROUP BY k": "s by k",
    f"SELECT k, n, count(*) AS c FROM s GROUP BY {W}, k, n": "s by k, n",
    f"SELECT upper(k) AS k, first(n) AS c FROM s GROUP BY {W}, upper(k)": "s by upper(k)",
    "SELECT k, count(*) AS c FROM s GROUP BY session_window(ts, '5 seconds'), k": "s by k",
    f"SELECT z, count(*) AS c FROM (SELECT ts, k AS z FROM s WHERE n > 1) GROUP BY {W}, z": "s by k",
    f"SELECT x, count(*) AS c FROM s GROUP BY {W}, x": "s by x",
    "SELECT DISTINCT ts, k FROM s": "s by ts, k",
    f"SELECT s.n FROM s JOIN u ON k = uk AND {JOIN}": "s by k; u by uk",
    f"SELECT s.n FROM s LEFT JOIN u ON n = m AND {JOIN}": "s by n::BIGINT; u by m",
    # A row without a partner has no key of the right side.
    f"SELECT uk, count(*) AS c FROM s LEFT JOIN u ON k = uk AND {JOIN} GROUP BY uk, {W}": "s one; u one",
    f"SELECT k, count(*) AS c FROM s LEFT JOIN u ON k = uk AND {JOIN} GROUP BY k, {W}": "s by k; u by uk",
    f"SELECT n, count(*) AS c FROM s JOIN u ON k = uk AND {JOIN} GROUP BY n, {W}": "s one; u one",
    # One stream, two different keys.
    "SELECT a.n FROM s a JOIN s b ON a.k = upper(b.k) AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS": "s one",
    "SELECT a.n FROM s a JOIN s b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS": "s by k",
    f"SELECT k, max(c) AS c FROM (SELECT {W} AS w, k, n, count(*) AS c FROM s GROUP BY {W}, k, n) "
    "GROUP BY w, k": "s by k",
    f"SELECT w, k, n FROM (SELECT {W} AS w, k, n, row_number() OVER (PARTITION BY {W}, k ORDER BY n) AS r FROM s) "
    "WHERE r <= 2": "s by k",
    "SELECT k, ts FROM s UNION ALL SELECT uk, ut FROM u": "s spread; u spread",
    "SELECT k, count(*) AS c FROM (SELECT k, ts FROM s UNION ALL SELECT uk, ut FROM u) "
    f"GROUP BY k, {W}": "s by k; u by uk",
    f"SELECT k, count(*) AS c FROM s GROUP BY {W}, k UNION ALL SELECT uk, m FROM u": "s by k; u spread",
    # All rows must come together, or all rows of a moment would, or the key could raise on rows that are dropped.
    f"SELECT count(*) AS c FROM s GROUP BY {W}": "s one",
    "SELECT count(*) AS c FROM s": "s one",
    "SELECT k, count(*) AS c FROM s GROUP BY rows_window(4), k": "s one",
    f"SELECT b, count(*) AS c FROM s GROUP BY {W}, b": "s one",
    "SELECT date_trunc('hour', ts) AS h, count(*) AS c FROM s GROUP BY date_trunc('hour', ts)": "s one",
    f"SELECT 10 / n AS d, count(*) AS c FROM s WHERE n <> 0 GROUP BY {W}, 10 / n": "s one",
}


@pytest.mark.parametrize("text", SPLIT, ids=range(len(SPLIT)))
def test_how_a_query_is_split(text: str) -> None:
    [query] = queries(text)
    assert route(place([query], 4), "q0") == SPLIT[text]


def by_window(keys: str) -> str:
    return f"SELECT {keys}, count(*) AS c FROM s GROUP BY {W}, {keys}"


def test_queries_of_a_stream_share_the_main_key() -> None:
    found = place(queries(by_window("k, n"), by_window("k"), by_window("k, x"), "SELECT k FROM s WHERE n > 1"), 3)
    assert {route(found, f"q{n}") for n in range(4)} == {"s by k"}
    assert len(found.routes_of("s")) == 1


def test_a_heavy_query_has_its_own_key_and_a_light_one_runs_whole() -> None:
    given = queries(by_window("k"), by_window("n"), by_window("x"))
    found = place(given, 2, {"q0": 1.0, "q1": 0.9, "q2": 0.1})
    assert [route(found, f"q{n}") for n in range(3)] == ["s by k", "s by n", "s one"]


def test_whole_queries_are_balanced_and_those_that_share_stay_together() -> None:
    common = "SELECT count(*) AS c, max(n) AS m FROM s WHERE n > 5 GROUP BY"
    given = queries(
        *(f"SELECT count(*) AS c FROM s WHERE n = {n} GROUP BY {W}" for n in range(4)),
        f"{common} {W}",
        f"SELECT c FROM ({common} {W}) WHERE m > 10",
    )
    found = place(given, 2, {**{f"q{n}": 1.0 for n in range(4)}, "q4": 1.0, "q5": 1.0})
    homes = [found.replica_of(f"q{n}") for n in range(6)]
    assert homes[4] == homes[5]
    assert sorted(homes.count(replica) for replica in (0, 1)) == [3, 3]


def test_a_light_selection_beside_whole_queries_runs_whole() -> None:
    given = queries(f"SELECT count(*) AS c FROM s GROUP BY {W}", "SELECT n FROM s WHERE n > 3")
    assert route(place(given, 2, {"q0": 1.0, "q1": 0.01}), "q1") == "s one"
    assert route(place(given, 2, {"q0": 1.0, "q1": 1.0}), "q1") == "s spread"


def whole(*columns: str) -> list[Query]:
    """Queries that cannot be split, one for each column."""
    return queries(*(f"SELECT max({column}) AS c FROM s GROUP BY {W}" for column in columns))


def test_an_added_query_goes_to_the_replica_with_the_least_load() -> None:
    """Not only the load of what is added counts."""
    first, second, third, new = whole("n", "x", "k", "n + 1")
    before = Plan((first, second, third), "cqc", placement=Placement(2, homes(q0=0, q1=0, q2=1)))
    found = placed([first, second, third, new], 2, before, {"q0": 0.1, "q1": 0.1, "q2": 0.8})
    assert found is not None
    assert [found.replica_of(f"q{n}") for n in range(4)] == [0, 0, 1, 0]
    found = placed([first, second, third, new], 2, before, {"q0": 0.4, "q1": 0.4, "q2": 0.2})
    assert found is not None
    assert found.replica_of("q3") == 1


def test_an_added_query_joins_those_that_it_shares_operators_with() -> None:
    first, second, new = queries(
        f"SELECT max(n) AS c FROM s GROUP BY {W}",
        f"SELECT max(x) AS c FROM s GROUP BY {W}",
        f"SELECT c FROM (SELECT max(n) AS c FROM s GROUP BY {W}) WHERE c > 1",
    )
    before = Plan((first, second), "cqc", placement=Placement(2, homes(q0=1, q1=0)))
    found = placed([first, second, new], 2, before, {"q0": 0.9, "q1": 0.1})
    assert found is not None
    assert found.replica_of("q2") == 1


def test_new_queries_cost_in_proportion_to_those_that_are_measured() -> None:
    """Two new queries weigh as much as the measured one does: they come to two replicas."""
    first, second, new, last = whole("n", "x", "k", "n + 1")
    before = Plan((first, second), "cqc", placement=Placement(2, homes(q0=0, q1=1)))
    found = placed([first, second, new, last], 2, before, {"q0": 0.5, "q1": 0.45})
    assert found is not None
    assert sorted([found.replica_of("q2") or 0, found.replica_of("q3") or 0]) == [0, 1]


def test_a_given_placement_is_explained() -> None:
    catalog = Catalog()
    catalog.execute(STREAMS)
    catalog.query("q0", f"SELECT max(n) AS c FROM s GROUP BY {W}")
    catalog.query("q1", "SELECT n FROM s")
    found = explain(catalog, "cqc", 3, Placement(3, homes(q0=2, ended=1))).placement
    assert found is not None
    assert found.homes == {"q0": 2}
    assert found.routes == {"s": [("to replica 2", ("q0",))]}


def homes(**replicas: int) -> dict[str, dict[str, Route]]:
    return {name: {"s": Route.to(replica)} for name, replica in replicas.items()}


def test_one_replica_changes_nothing() -> None:
    given = queries(by_window("k"), "SELECT n FROM s")
    found = place(given, 1)
    assert all(found.local(query, 0) is query for query in given)


def test_local_queries_share_operators() -> None:
    given = queries(by_window("k"), f"SELECT k, c FROM (SELECT k, count(*) AS c FROM s GROUP BY {W}, k) WHERE c > 1")
    found = place(given, 2)
    first, second = (found.local(query, 1) for query in given)
    assert first is not None
    assert second is not None
    names = {node.stream for node in first.plan.walk() if not node.inputs and hasattr(node, "stream")}
    assert names == {found.routes["q0"]["s"].local("s")}
    assert sum(node in set(first.plan.walk()) for node in second.plan.walk()) >= 2


def test_json() -> None:
    placement = place(
        queries(by_window("k"), "SELECT n FROM s", f"SELECT count(*) AS c FROM u GROUP BY {W.replace('ts', 'ut')}"), 3
    )
    assert Placement.of(read(written(placement.given))) == placement
    moved = replace(placement, owners=(2, *placement.table[1:]))
    assert moved.table[0] != placement.table[0]
    assert Placement.of(read(written(moved.given))) == moved


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 100])
def test_a_placement_without_a_table_is_that_of_earlier_versions(replicas: int) -> None:
    """They sent a key to its hash modulo the number of replicas, and wrote no table."""
    placement = Placement(replicas)
    assert len(placement.given) == 2
    keys = [pa.array(["a", None, *map(str, range(500))])]
    for stream, hashes in (("s", xxhash64(keys, 502)), ("q/0", hashed(keys, 502))):
        assert owners(placement, stream, keys).tolist() == [int(each) % replicas for each in hashes]


def test_queries_that_stay_keep_their_keys_where_they_are() -> None:
    given = tuple(queries(by_window("k"), "SELECT n FROM s"))
    moved = replace(place(given, 3), owners=(0, 1, 2, 2))
    before = Plan(given, "fifo", placement=moved)
    assert placed(given, 3, before) == moved
    rescaled = placed(given, 2, before)
    assert rescaled is not None
    assert rescaled.table == Placement(2).table


def test_state_moves_only_if_keys_do() -> None:
    keyed, whole = tuple(queries(by_window("k"))), tuple(queries("SELECT count(*) AS c FROM s"))
    for given, moves in ((keyed, True), (whole, False)):
        plan = Plan(given, "fifo", placement=place(given, 2))
        assert plan.placement is not None
        assert must_move(plan, replace(plan, placement=replace(plan.placement, owners=(1, 0)))) is moves
        assert not must_move(plan, replace(plan, placement=replace(plan.placement, owners=plan.placement.table)))


def test_a_table_with_unknown_replicas_is_refused() -> None:
    with pytest.raises(ValueError, match="do not exist"):
        Placement(2, {}, (0, 1, 2))


def test_routes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="one replica and to others"):
        Placement(2, {"q": {"s": Route.to(0), "u": SPREAD}})
    with pytest.raises(ValueError, match="one replica and to others"):
        Placement(2, {"q": {"s": Route.to(0), "u": Route.by(Column(INT, 0))}})
