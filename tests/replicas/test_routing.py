"""Routes as Catalyst follows them: each row reaches exactly the replicas of its routes, once each."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headgate.graph import types as t
from headgate.graph.expressions import Call, Column, Expr, Foreign
from headgate.spark import key_slots
from headgate.spark.packing import Packing
from headgate.spark.placement import SPREAD, Placement, Route, bits_of
from headgate.spark.routing import routed
from tests.replicas.harness import any_owners

pytestmark = pytest.mark.spark

K, V = Column(t.STRING, 0), Column(t.BIGINT, 1)
UPPER = Foreign(t.STRING, "upper(`k`)", frozenset({0}))


def packing(*streams: str, flaws: bool = False, computed: bool = False) -> Packing:
    columns = {name: [("k", t.STRING, "`k`"), ("v", t.BIGINT, "`v`")] for name in streams}
    found = dict.fromkeys(streams, "`bad`") if flaws else None
    extra = {name: [(UPPER.key, t.STRING, UPPER.sql)] for name in streams} if computed else None
    return Packing(columns, found, extra)


def rows(spark: Any, layout: Packing, stream: str, count: int, bad: bool = False) -> Any:
    """Numbered rows with 100 keys, some null; one in ten malformed."""
    frame = spark.range(count).selectExpr(
        "IF(id % 100 = 7, NULL, concat(IF(id % 3 = 0, 'k', 'K'), id % 100)) AS k",
        "id AS v",
        f"IF({str(bad).lower()} AND id % 10 = 3, 'x', NULL) AS bad",
    )
    packed = frame.selectExpr(*layout.select(stream))
    conditions = {(stream, UPPER.key): "TRUE"} if layout.extra else {}
    chosen = layout.complete(conditions)
    return packed if chosen is None else packed.selectExpr(*chosen)


def went(frame: Any) -> dict[int, list[tuple[int, int | None]]]:
    """For each row, by its number, the replicas that it goes to, with its mask there."""
    found: dict[int, list[tuple[int, int | None]]] = {}
    for row in frame.collect():
        place = found.setdefault(row["t0_0"], [])
        place.append((row["replica"], row["mask"] if "mask" in frame.columns else None))
    return found


def placement(replicas: int, **routes: list[Route]) -> Placement:
    """A query for each route of each stream."""
    return Placement(
        replicas,
        {f"{stream}{n}": {stream: route} for stream, found in routes.items() for n, route in enumerate(found)},
    )


def owners(spark: Any, layout: Packing, key: tuple[Expr, ...], replicas: int, count: int) -> dict[int, int]:
    """The replica of each row by one key."""
    frame = routed(rows(spark, layout, "s", count), layout, placement(replicas, s=[Route.by(*key)]))
    return {row: places[0][0] for row, places in went(frame).items()}


def test_one_route_needs_no_mask(spark: Any) -> None:
    layout = packing("s")
    frame = routed(rows(spark, layout, "s", 100), layout, placement(2, s=[Route.to(1)]))
    assert "mask" not in frame.columns
    assert went(frame) == {row: [(1, None)] for row in range(100)}


@pytest.mark.parametrize("replicas", [2, 4, 7])
def test_a_key_has_one_owner_and_keys_are_spread(spark: Any, replicas: int) -> None:
    layout = packing("s")
    by_number = owners(spark, layout, (V,), replicas, 7000)
    shares = Counter(by_number.values())
    assert len(by_number) == 7000
    assert all(0.85 * 7000 / replicas < shares[r] < 1.15 * 7000 / replicas for r in range(replicas))
    by_key = owners(spark, layout, (K,), replicas, 1200)
    for row, replica in by_key.items():
        assert by_key[row % 300] == replica


@pytest.mark.parametrize("seed", range(6))
def test_catalyst_and_replicas_agree_on_owners(spark: Any, seed: int) -> None:
    """For any table, keys of one column and of several: each row reaches the replica where its state is."""
    chance, layout = Random(seed), packing("s", computed=True)
    placed = any_owners(placement(chance.choice([2, 3, 5]), s=[Route.by(K), Route.by(V, K), Route.by(UPPER)]), chance)
    table = rows(spark, layout, "s", 600)
    found = went(routed(table, layout, placed))
    known = table.toArrow().sort_by("t0_0").combine_chunks()
    columns = {K: known["t1_0"], V: known["t0_0"], UPPER: known["c0"]}
    routes = placed.routes_of("s")
    by = [key_slots.owners(placed, "s", [columns[key].combine_chunks() for key in route.keys]) for route in routes]
    for row in range(600):
        wanted: dict[int, int] = {}
        for bit, places in enumerate(by):
            wanted[int(places[row])] = wanted.get(int(places[row]), 0) | 1 << bit
        assert dict(found[row]) == wanted
        assert len(found[row]) == len(wanted)


def test_rows_that_may_go_anywhere_are_spread_evenly(spark: Any) -> None:
    layout = packing("s")
    found = went(routed(rows(spark, layout, "s", 4000), layout, placement(4, s=[SPREAD])))
    assert all(len(places) == 1 for places in found.values())
    shares = Counter(places[0][0] for places in found.values())
    assert all(800 < shares[replica] < 1200 for replica in range(4))


def test_a_row_goes_once_to_each_replica_of_its_routes(spark: Any) -> None:
    layout = packing("s", "u")
    placed = placement(3, s=[Route.by(K), Route.by(K, V), Route.to(0), Route.to(2)], u=[Route.to(1)])
    routes = placed.routes_of("s")
    assert [route.kind for route in routes] == ["key", "key", "one", "one"]
    frame = rows(spark, layout, "s", 500).union(rows(spark, layout, "u", 40))
    found = went(routed(frame.where("stream = 0"), layout, placed))
    by = [owners(spark, layout, route.keys, 3, 500) if route.keys else {} for route in routes]
    for row in range(500):
        wanted: dict[int, int] = {}
        for place, (bit, route) in enumerate(zip(bits_of(routes), routes, strict=True)):
            replica = by[place][row] if route.kind == "key" else route.replica
            wanted[replica] = wanted.get(replica, 0) | 1 << bit
        assert dict(found[row]) == wanted
        assert len(found[row]) == len(wanted)
    others = went(routed(frame.where("stream = 1"), layout, placed))
    assert all(places == [(1, 1)] for places in others.values())


def test_more_routes_than_bits(spark: Any) -> None:
    """A replica knows at most one of the routes to single replicas: these have one bit in common."""
    layout = packing("s")
    placed = placement(70, s=[Route.by(K), Route.by(K, V), *map(Route.to, range(70))])
    assert len(placed.routes_of("s")) == 72
    found = went(routed(rows(spark, layout, "s", 50), layout, placed))
    by = [owners(spark, layout, route.keys, 70, 50) for route in placed.routes_of("s")[:2]]
    for row, places in found.items():
        assert sorted(replica for replica, _ in places) == list(range(70))
        masks = {replica: 4 + (by[0][row] == replica) + 2 * (by[1][row] == replica) for replica in range(70)}
        assert dict(places) == masks


def test_the_two_sides_of_a_join_meet(spark: Any) -> None:
    """Streams of other shapes, the key in another column, computed on one side."""
    left = packing("s")
    right = Packing({"r": [("a", t.BIGINT, "`v`"), ("b", t.INT, "1"), ("c", t.STRING, "`k`")]})
    upper: Expr = Call(t.STRING, "upper", (Column(t.STRING, 2),))
    one = routed(rows(spark, left, "s", 300), left, placement(5, s=[Route.by(Call(t.STRING, "upper", (K,)), V)]))
    frame = spark.range(300).selectExpr("concat('K', id % 100) AS k", "id AS v").selectExpr(*right.select("r"))
    other = routed(frame, right, placement(5, r=[Route.by(upper, Column(t.BIGINT, 0))]))
    lefts = {row["t0_0"]: row["replica"] for row in one.collect()}
    slot = right.slot("r", "a")
    rights = {row[slot]: row["replica"] for row in other.collect()}
    assert {row for row in lefts if lefts[row] != rights[row]} <= {row for row in lefts if row % 100 == 7}


def test_what_catalyst_computes_is_a_key(spark: Any) -> None:
    layout = packing("s", computed=True)
    found = owners(spark, layout, (UPPER,), 4, 300)
    assert all(found[row] == found[row + 100] == found[row + 200] for row in range(100))
    assert found != owners(spark, layout, (K,), 4, 300)


def test_malformed_rows_go_to_one_replica(spark: Any) -> None:
    layout = packing("s", flaws=True)
    found = went(routed(rows(spark, layout, "s", 200, bad=True), layout, placement(2, s=[Route.to(0), Route.to(1)])))
    assert {row: len(places) for row, places in found.items()} == {row: 1 if row % 10 == 3 else 2 for row in range(200)}
    assert all(places[0][1] == 0 for row, places in found.items() if row % 10 == 3)


ZEROS = [0.0, -0.0, float("nan"), float("-nan"), None]


@pytest.mark.parametrize("type_", [t.DOUBLE, t.FLOAT, pa.struct([("x", t.DOUBLE)])])
def test_equal_floating_keys_have_one_owner(spark: Any, type_: pa.DataType) -> None:
    layout = Packing({"s": [("x", type_, "`x`")]})
    values = [{"x": value} if pa.types.is_struct(type_) else value for value in ZEROS]
    table = pa.table({"x": pa.array(values, type_)})
    frame = spark.createDataFrame(table).selectExpr(*layout.select("s"))
    places = [row["replica"] for row in routed(frame, layout, placement(64, s=[Route.by(Column(type_, 0))])).collect()]
    assert places[0] == places[1]
    assert places[2] == places[3]


def test_routes_work_on_streams(spark: Any, tmp_path: Any) -> None:
    layout = packing("s")
    frame = spark.readStream.format("rate").load().selectExpr("'a' AS k", "value AS v").selectExpr(*layout.select("s"))
    placed = placement(2, s=[Route.by(K), SPREAD, Route.to(0)])
    query = routed(frame, layout, placed).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    started = query.trigger(availableNow=True).start()
    assert started.awaitTermination(60)
    assert started.exception() is None
