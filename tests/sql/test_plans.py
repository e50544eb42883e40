"""Shapes of plans: conditions at the sources, only required columns in stateful operators, bounds of joins."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pytest

from headgate.graph import types as t
from headgate.graph.expressions import Call, Column, Foreign, Literal
from headgate.graph.operators import (
    Aggregate,
    Distinct,
    Expand,
    Join,
    Lookup,
    Operator,
    Project,
    Select,
    Source,
    Top,
    Union,
)
from headgate.graph.types import Schema
from headgate.sql import Catalog
from tests.sql.scripts import PRELUDE, bound, declared, kinds, planned

Node = TypeVar("Node", bound=Operator)
SECOND = 1_000_000


def only(plan: Operator, kind: type[Node]) -> Node:
    """The one node of a kind."""
    found = [node for node in plan.walk() if isinstance(node, kind)]
    assert len(found) == 1, plan.text
    return found[0]


# -- projections and conditions


def test_projections_merge() -> None:
    plan = planned("SELECT x * 2 AS y FROM (SELECT temperature + 1 AS x, humidity FROM sensors) WHERE humidity > 3")
    assert kinds(plan) == ["source", "select", "project"]


def test_all_columns_need_no_projection() -> None:
    assert kinds(planned("SELECT * FROM sensors")) == ["source"]
    assert kinds(planned("SELECT * FROM sensors WHERE humidity > 3")) == ["source", "select"]


def test_conditions_pass_a_union() -> None:
    plan = planned(
        "SELECT x FROM (SELECT location AS x FROM sensors UNION ALL SELECT location FROM smoke) WHERE x = 'a'"
    )
    union = only(plan, Union)
    assert plan is union
    assert all(kinds(part) == ["source", "select", "project"] for part in union.parts)


def test_conditions_on_keys_pass_an_aggregate_and_others_stay() -> None:
    plan = planned(
        "SELECT * FROM (SELECT window(ts, '1 minute') AS w, location, count(*) AS n FROM sensors GROUP BY 1, 2)"
        " WHERE location = 'a' AND n > 3"
    )
    assert kinds(plan) == ["source", "select", "aggregate", "select"]


def test_conditions_that_may_raise_do_not_pass_a_join() -> None:
    plan = planned(
        "SELECT s.ts FROM sensors s JOIN smoke k ON s.location = k.location AND k.at = s.ts"
        " WHERE 10 / temperature > 1 AND humidity > 3"
    )
    join = only(plan, Join)
    assert len(join.residual) == 1
    assert kinds(join.left) == ["source", "select", "project"]
    assert only(join.left, Select).predicates[0].text == "gt(#3, 3:int32):bool"


def test_conditions_keep_the_meaning_of_outer_joins() -> None:
    plan = planned(
        "SELECT s.ts, k.level FROM sensors s LEFT JOIN smoke k ON s.location = k.location AND k.at = s.ts"
        " AND s.humidity > 1 AND k.level > 2 WHERE s.temperature > 3 AND k.level IS NULL"
    )
    join = only(plan, Join)
    assert [p.text for p in only(join.left, Select).predicates] == ["gt(#2, 3:int32):bool"]  # of WHERE, left side
    assert [p.text for p in only(join.right, Select).predicates] == ["gt(#2, 2.0:double):bool"]  # of ON, right side
    assert len(join.residual) == 1  # of ON, left side: decides a match, keeps the row
    assert isinstance(plan, Project)
    assert isinstance(plan.input, Select)  # of WHERE, right side: only after the join


def test_only_needed_columns_enter_a_join() -> None:
    plan = planned("SELECT s.humidity FROM sensors s JOIN smoke k ON s.location = k.location AND k.at = s.ts")
    join = only(plan, Join)
    assert join.left.schema.types == (t.TIMESTAMP, t.STRING, t.INT)
    assert join.right.schema.types == (t.TIMESTAMP, t.STRING)


def test_unused_aggregates_are_not_computed() -> None:
    plan = planned("SELECT w FROM (SELECT window(ts, '1 minute') AS w, sum(humidity) AS s FROM sensors GROUP BY 1)")
    assert only(plan, Aggregate).calls == ()


def test_equal_aggregates_are_computed_once() -> None:
    plan = planned("SELECT sum(humidity) AS a, sum(humidity) + 1 AS b FROM sensors GROUP BY window(ts, '1 minute')")
    assert len(only(plan, Aggregate).calls) == 1


def test_constants_are_folded() -> None:
    plan = planned(
        "SELECT temperature > 2 * 3 + 1 AS a, ts > TIMESTAMP '2024-01-01' - INTERVAL 1 HOUR AS b FROM sensors"
    )
    assert isinstance(plan, Project)
    first, second = plan.exprs
    assert first.args[1] == Literal(t.INT, 7)
    assert isinstance(second.args[1], Literal)
    assert second.args[1].value.isoformat() == "2023-12-31T23:00:00+00:00"


def test_a_constant_that_overflows_is_left_to_fail_on_rows() -> None:
    plan = planned("SELECT 2147483647 + 1 AS a FROM sensors")
    assert isinstance(plan, Project)
    assert isinstance(plan.exprs[0], Call)


# -- types


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("1", t.INT),
        ("3000000000", t.BIGINT),
        ("-2147483648", t.INT),
        ("-9223372036854775808", t.BIGINT),
        ("1.50", pa.decimal128(3, 2)),
        ("0.05", pa.decimal128(2, 2)),
        ("1e3", t.DOUBLE),
        ("1.5D", t.DOUBLE),
        ("2S", t.SMALLINT),
        ("1.5BD", pa.decimal128(2, 1)),
        ("temperature / 2", t.DOUBLE),
        ("temperature + 1.5", pa.decimal128(12, 1)),
        ("temperature + level", t.DOUBLE),
        ("INTERVAL '1:30' MINUTE TO SECOND", t.INTERVAL),
        ("INTERVAL 1 HOUR 30 MINUTES", t.INTERVAL),
        ("s.ts - k.at", t.INTERVAL),
        ("coalesce(temperature, level)", t.DOUBLE),
        ("NULL", t.NULL),
        ("CASE WHEN level > 1 THEN 1 ELSE 2.5 END", pa.decimal128(11, 1)),
        ("named_struct('a', temperature)", pa.struct([("a", t.INT)])),
        ("struct(level AS l, s.location)", pa.struct([("l", t.DOUBLE), ("location", t.STRING)])),
        ("array(temperature, 5L)", pa.list_(t.BIGINT)),
        ("DATE '2024-01-31'", t.DATE),
        ("count(*)", t.BIGINT),
    ],
)
def test_types_are_spark_s(expression: str, type_: pa.DataType) -> None:
    group = " GROUP BY window(s.ts, '1 minute')" if "count" in expression else ""
    query = bound(f"SELECT {expression} AS x FROM sensors s JOIN smoke k ON k.at = s.ts{group}")
    assert query.schema.types == (type_,)


def test_coercions_are_casts() -> None:
    plan = planned("SELECT temperature + 5L AS x FROM sensors")
    assert isinstance(plan, Project)
    add = plan.exprs[0]
    assert [a.text for a in add.args] == ["cast(#2):int64", "5:int64"]


def test_columns_without_alias_are_called_as_in_spark() -> None:
    query = bound(
        "SELECT count(*), sum(temperature + 1), window, window.start FROM sensors GROUP BY window(ts, '1 second')"
    )
    assert query.schema.names == ("count(1)", "sum((temperature + 1))", "window", "start")


# -- windows


def test_windows_of_time() -> None:
    window = only(
        planned("SELECT count(*) FROM sensors GROUP BY window(ts, '10 seconds', '5 seconds', '-1 second')"), Aggregate
    ).window
    assert window is not None
    assert (window.kind, window.length, window.slide, window.offset) == ("time", 10 * SECOND, 5 * SECOND, 4 * SECOND)
    assert window.on == Column(t.TIMESTAMP, 0)


def test_windows_of_rows() -> None:
    plan = planned(
        "SELECT rows_window.start, location, count(*) FROM sensors WHERE humidity > 1"
        " GROUP BY rows_window(10, 4), location"
    )
    aggregate = only(plan, Aggregate)
    assert aggregate.window is not None
    assert (aggregate.window.kind, aggregate.window.length, aggregate.window.slide) == ("rows", 10, 4)
    assert aggregate.keys == (Column(t.STRING, 1),)
    assert aggregate.schema.types[0] == pa.struct([("start", t.BIGINT), ("end", t.BIGINT)])


def test_conditions_on_keys_do_not_pass_windows_of_rows() -> None:
    plan = planned(
        "SELECT * FROM (SELECT location, count(*) AS n FROM sensors GROUP BY rows_window(10), location)"
        " WHERE location = 'a'"
    )
    assert kinds(plan) == ["source", "aggregate", "select", "project"]


def test_sessions() -> None:
    window = only(planned("SELECT count(*) FROM sensors GROUP BY session_window(ts, '5 minutes')"), Aggregate).window
    assert window is not None
    assert (window.kind, window.length) == ("session", 300 * SECOND)


def test_windows_of_windows() -> None:
    for select in (
        "SELECT window(w, '1 minute'), sum(n) FROM counts GROUP BY window(w, '1 minute')",
        "SELECT window(window_time(w), '1 minute'), sum(n) FROM counts GROUP BY 1",
    ):
        plan = planned(select)
        assert isinstance(plan, Aggregate)
        assert plan.window is not None
        assert plan.window.on is not None
        assert plan.window.on.text == "window_time(#0):timestamp[us, tz=UTC]"


def test_a_window_column_is_a_key_that_closes_with_the_watermark() -> None:
    plan = planned("SELECT w, sum(n) AS n FROM counts GROUP BY w")
    aggregate = only(plan, Project).input
    assert isinstance(aggregate, Aggregate)
    assert aggregate.window is not None
    assert aggregate.window.length == 1
    assert aggregate.keys == (Column(t.WINDOW, 0),)


def test_a_hopping_window_without_group_by_repeats_rows() -> None:
    plan = planned("SELECT window(ts, '10 seconds', '5 seconds') AS w, location FROM sensors")
    assert only(plan, Expand).window.slide == 5 * SECOND


def test_distinct_is_bounded_by_time() -> None:
    assert only(planned("SELECT DISTINCT location, ts FROM sensors"), Distinct).time == Column(t.TIMESTAMP, 1)
    of_window = only(planned("SELECT DISTINCT w FROM counts"), Distinct)
    assert of_window.time.text == "window_time(#0):timestamp[us, tz=UTC]"


@pytest.mark.parametrize(
    ("condition", "count", "more"),
    [("r <= 3", 3, False), ("r < 3", 2, False), ("r = 1", 1, False), ("3 >= r", 3, False), ("r = 2", 2, True)],
)
def test_top_n(condition: str, count: int, more: bool) -> None:
    ranked = "SELECT w, n, rank() OVER (PARTITION BY w ORDER BY n DESC, location) AS r FROM counts"
    plan = planned(f"SELECT w, n FROM ({ranked}) WHERE {condition}")
    top = only(plan, Top)
    assert (top.count, top.ranking) == (count, "rank")
    assert [(o.descending, o.nulls_first) for o in top.order] == [(True, False), (False, True)]
    assert any(isinstance(node, Select) for node in plan.walk()) == more


def test_top_n_in_the_select_that_aggregates() -> None:
    plan = planned(
        "SELECT location FROM (SELECT location, row_number() OVER (PARTITION BY window ORDER BY count(*) DESC) AS r"
        " FROM sensors GROUP BY window(ts, '1 minute'), location) WHERE r = 1"
    )
    assert kinds(plan) == ["source", "aggregate", "top", "project"]


# -- joins


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("k.at BETWEEN s.ts AND s.ts + INTERVAL 10 SECONDS", 0, 10 * SECOND),
        ("s.ts BETWEEN k.at - INTERVAL 10 SECONDS AND k.at", 0, 10 * SECOND),
        ("k.at > s.ts - INTERVAL 1 SECOND AND k.at < s.ts + INTERVAL 1 SECOND", -SECOND + 1, SECOND - 1),
        ("s.ts = k.at", 0, 0),
        ("k.at = s.ts + INTERVAL '2' SECOND", 2 * SECOND, 2 * SECOND),
        (
            "s.ts + INTERVAL 1 SECOND <= k.at + INTERVAL 3 SECONDS AND s.ts >= k.at - INTERVAL 5 SECONDS",
            -2 * SECOND,
            5 * SECOND,
        ),
    ],
)
def test_bounds(condition: str, low: int, high: int) -> None:
    join = only(planned(f"SELECT s.ts FROM sensors s JOIN smoke k ON s.location = k.location AND {condition}"), Join)
    assert (join.bound.low, join.bound.high) == (low, high)
    assert join.residual == ()


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("JOIN", "inner"),
        ("LEFT JOIN", "left"),
        ("LEFT OUTER JOIN", "left"),
        ("RIGHT JOIN", "right"),
        ("FULL OUTER JOIN", "full"),
        ("LEFT SEMI JOIN", "semi"),
        ("LEFT ANTI JOIN", "anti"),
    ],
)
def test_kinds_of_joins(words: str, how: str) -> None:
    join = only(planned(f"SELECT s.humidity FROM sensors s {words} smoke k ON k.at = s.ts"), Join)
    assert join.how == how


def test_equal_windows_bound_a_join() -> None:
    windowed = "(SELECT window({0}, '10 seconds') AS w, count(*) AS n FROM {1} GROUP BY 1)"
    left, right = windowed.format("ts", "sensors"), windowed.format("at", "smoke")
    for condition in ("a.w = b.w", "a.w.start = b.w.start AND a.w.end = b.w.end", "a.w.end = b.w.end"):
        join = only(planned(f"SELECT a.n, b.n AS m FROM {left} a JOIN {right} b ON {condition}"), Join)
        assert (join.bound.low, join.bound.high) == (0, 0)
        assert "window_time" in join.bound.left.text


def test_equal_windows_of_rows_bound_a_join_by_their_own_times() -> None:
    condition = "window(s.ts, '10 seconds') = window(k.at, '10 seconds')"
    join = only(planned(f"SELECT s.humidity FROM sensors s JOIN smoke k ON {condition}"), Join)
    assert (join.bound.low, join.bound.high) == (1 - 10 * SECOND, 10 * SECOND - 1)
    assert isinstance(join.bound.left, Column)
    assert len(join.left_keys) == 2


def test_columns_computed_before_an_outer_join_are_null_after_it() -> None:
    plan = planned("SELECT b.one FROM sensors a LEFT JOIN (SELECT at, 1 AS one FROM smoke) b ON b.at = a.ts")
    assert isinstance(plan, Project)
    assert isinstance(plan.exprs[0], Column)


def test_using_gives_one_column() -> None:
    query = bound("SELECT * FROM sensors JOIN smoke USING (location) WHERE at = ts")
    assert query.schema.names == ("location", "ts", "temperature", "humidity", "at", "level")


def test_a_table_may_stand_on_either_side() -> None:
    right = planned("SELECT city, temperature FROM sensors s LEFT JOIN places p ON s.location = p.location")
    left = planned("SELECT city, temperature FROM places p RIGHT JOIN sensors s ON s.location = p.location")
    assert right.text == left.text
    assert only(right, Lookup).how == "left"


# -- rows that are replaced


def test_an_unwindowed_aggregate_updates_rows_by_its_keys() -> None:
    query = bound("SELECT count(*) AS n, upper(location) AS l FROM sensors GROUP BY location, humidity")
    assert query.mode == "update"
    assert query.schema.names == ("n", "l")
    assert query.plan.schema.types == (t.BIGINT, t.STRING, t.STRING, t.INT, t.BOOLEAN)


# -- Catalyst


def foreign(plan: Operator) -> list[tuple[Operator, Foreign]]:
    """The expressions that Catalyst computes in a plan, and their operators."""
    found = []
    for node in plan.walk():
        exprs = node.exprs if isinstance(node, Project) else node.predicates if isinstance(node, Select) else ()
        found += [(node, e) for expr in exprs for e in expr.walk() if isinstance(e, Foreign)]
    return found


def test_what_has_no_kernel_is_computed_at_the_source() -> None:
    found = foreign(planned("SELECT md5(lower(location)) AS h FROM sensors WHERE md5(location) LIKE 'a%'"))
    assert [type(node) for node, _ in found] == [Select, Project]
    assert all(e.reads == frozenset({1}) and e.sql.startswith("md5(") and "`location`" in e.sql for _, e in found)


def test_catalyst_below_a_join() -> None:
    plan = planned(
        "SELECT md5(s.location) AS h FROM sensors s JOIN smoke k ON md5(k.location) = md5(s.location) AND k.at = s.ts"
    )
    join = only(plan, Join)
    for side in (join.left, join.right):
        assert isinstance(side, Project)
        assert isinstance(side.input, Source)
        assert any(isinstance(e, Foreign) for e in side.exprs)


def test_spark_is_asked_for_types_that_nobody_else_knows() -> None:
    asked: list[str] = []

    def type_of(sql: str, schema: Schema) -> pa.DataType:
        asked.append(sql)
        assert "user" in schema.names
        return pa.list_(t.STRING)

    catalog = Catalog(type_of=type_of)
    catalog.execute(PRELUDE)
    query = catalog.query("q", "SELECT transform(item.tags, x -> concat(x, c.user)) AS u FROM clicks AS c")
    assert query.schema.types == (pa.list_(t.STRING),)
    assert [sql.lower() for sql in asked] == ["transform(`item`.`tags`, x -> concat(x, `user`))"]


def test_catalyst_of_a_query_over_a_query() -> None:
    catalog = declared()
    catalog.execute("CREATE QUERY hashed AS SELECT ts, location, md5(location) AS h FROM sensors")
    plan = bound("SELECT a.h FROM hashed a JOIN smoke k ON k.location = a.location AND k.at = a.ts", catalog).plan
    ((node, _),) = foreign(plan)
    assert node is only(plan, Join).left
