"""What operators say of themselves: expressions and their scopes, where columns come from, what moves below them."""

from __future__ import annotations

import pytest

import headgate.operators.live  # noqa: F401 - imports every live operator
from headgate.graph.event_times import EventTime
from headgate.graph.expressions import PYTHON_TIME_LIMIT, Call, Column, Expr, Literal
from headgate.graph.operators import (
    KINDS,
    Aggregate,
    AggregateCall,
    Candidates,
    CurrentJoin,
    CurrentTop,
    Distinct,
    Expand,
    Join,
    Lookup,
    Merge,
    Operator,
    Order,
    Partial,
    Project,
    Select,
    Send,
    Source,
    Split,
    Stamp,
    TimeBound,
    Top,
    Union,
    Unstamp,
    Window,
    concat,
    source_of,
)
from headgate.graph.operators.operator import ALL, LEFT, OUTPUT, RIGHT, TABLE, ColumnScope
from headgate.graph.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, WINDOW, Field, Schema
from headgate.operators.registry import maker_of

ROW = Schema.of(("ts", TIMESTAMP), ("key", STRING), ("value", INT))
S = Source(ROW, "s", 0, 5)
TS, KEY, VALUE = (Column(f.type, i) for i, f in enumerate(ROW.fields))
POSITIVE = Call(BOOLEAN, "gt", (VALUE, Literal(INT, 0)))


def wider(*more: tuple[str, object]) -> Schema:
    return concat(ROW, Schema.of(*more))


def join(how: str = "inner") -> Join:
    apart = Call(BOOLEAN, "ne", (VALUE, Column(INT, 5)))
    schema = ROW if how in ("semi", "anti") else concat(ROW, ROW)
    return Join(schema, S, S, how, (KEY,), (KEY,), TimeBound(TS, TS, 0, 9), (apart,))  # type: ignore[arg-type]


def lookup(how: str = "inner") -> Lookup:
    table = Schema.of(("key", STRING), ("limit", INT))
    above = Call(BOOLEAN, "gt", (VALUE, Column(INT, 4)))
    return Lookup(concat(ROW, table), S, "limits", table, how, (KEY,), (Column(STRING, 0),), (above,))  # type: ignore[arg-type]


def aggregate(window: Window | None = None) -> Aggregate:
    calls = (AggregateCall("sum", (VALUE,), BIGINT, where=POSITIVE), AggregateCall("count", (), BIGINT))
    last = ("deleted", BOOLEAN)
    columns = [("key", STRING), ("sum", BIGINT), ("count", BIGINT)]
    schema = Schema.of(("window", WINDOW), *columns) if window is not None else Schema.of(*columns, last)
    having = None if window is not None else Call(BOOLEAN, "gt", (Column(BIGINT, 2), Literal(BIGINT, 1)))
    return Aggregate(schema, S, (KEY,), calls, window, having)


def current_top(*partition: Expr) -> CurrentTop:
    below = aggregate()
    schema = concat(below.schema, Schema.of(("rank", INT), ("deleted", BOOLEAN)))
    first = (partition, (Order(Column(BIGINT, 1), True),), 3, "rank")
    shown = Call(BOOLEAN, "ne", (Column(BIGINT, 2), Column(INT, 4)))
    return CurrentTop(schema, below, *first, (Column(STRING, 0),), Column(BOOLEAN, 3), shown)  # type: ignore[arg-type]


def current_join(how: str = "inner") -> CurrentJoin:
    below = aggregate()
    schema = ROW if how in ("semi", "anti") else concat(ROW, below.schema)
    more = Call(BOOLEAN, "gt", (VALUE, Column(BIGINT, 4)))
    right = ((Column(STRING, 0),), (Column(STRING, 0),), Column(BOOLEAN, 3), (more,))
    return CurrentJoin(schema, S, below, how, TS, (KEY,), *right)  # type: ignore[arg-type]


STATES = Schema.of(("pane", BIGINT), ("key", STRING), ("sum", BIGINT), ("count", BIGINT))
KEY_BELOW = Column(STRING, 0)
HOPPING = Window("time", 10, 5, 0, TS)
EXAMPLES: dict[str, Operator] = {
    each.kind: each
    for each in (
        S,
        Select(ROW, S, (POSITIVE,)),
        Project(Schema.of(("v", INT), ("w", BOOLEAN)), S, (VALUE, POSITIVE)),
        Expand(wider(("window", WINDOW)), S, HOPPING),
        Split(wider(("route", INT)), S, (POSITIVE,)),
        Union(ROW, (S, S)),
        aggregate(),
        join(),
        lookup(),
        Distinct(ROW, S, TS),
        current_top(KEY_BELOW),
        current_join(),
        Top(wider(("rank", INT)), S, (KEY,), (Order(VALUE, True),), 3, "rank", TS),
        Stamp.over(S, (KEY,)),
        Unstamp(ROW, Stamp.over(S, (KEY,)), (KEY,)),
        Send(ROW, S),
        Partial(STATES, S, aggregate()),
        Merge(aggregate().schema, S, aggregate()),
        Candidates(ROW, S, (KEY,), (Order(VALUE, True),), 3, "rank", TS),
    )
}


def test_there_is_an_example_of_every_kind() -> None:
    assert {kind: type(node) for kind, node in EXAMPLES.items()} == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_is_complete(kind: str) -> None:
    node = EXAMPLES[kind]
    assert callable(maker_of(node))
    assert node.with_inputs(node.inputs) == node
    assert node.with_expressions(lambda _, expr: expr) is node
    assert node.describe(lambda expr, names: names[expr.index] if isinstance(expr, Column) else expr.text)
    assert len(node.own) + sum(len(node.inputs[i].schema) for i in node.passes) == len(node.schema)
    assert node.obstacle(None) is not None or not node.own


@pytest.mark.parametrize("kind", KINDS)
def test_every_expression_is_found_and_replaced(kind: str) -> None:
    def moved(scope: ColumnScope, expr: Expr) -> Expr:
        return expr.rewrite(lambda e: Column(e.type, e.index + 100) if isinstance(e, Column) else None)

    node = EXAMPLES[kind]
    detail = node.with_expressions(moved).detail
    assert "#" not in detail.replace("#10", "")
    assert detail.count("#10") == node.detail.count("#")


def test_expressions_say_which_columns_they_are_over() -> None:
    assert [scope for scope, _ in join().expressions] == [LEFT, RIGHT, LEFT, RIGHT, ALL]
    assert [scope for scope, _ in lookup().expressions] == [0, TABLE, ALL]
    assert [scope for scope, _ in aggregate().expressions] == [0, 0, 0, OUTPUT]


def test_the_time_limit_is_the_lowest_of_the_python_functions_wherever_they_stand() -> None:
    def python(limit: float | None) -> Expr:
        return Call(INT, "python", (VALUE,), "m:f", limit)

    assert all(node.time_limit is None for node in EXAMPLES.values())
    nested = Call(INT, "add", (python(None), Call(INT, "negative", (python(2.5),))))
    for node in EXAMPLES.values():
        changed = node.with_expressions(lambda _, expr: nested)
        assert changed.time_limit == (2.5 if node.expressions else None)
    assert Select(ROW, S, (python(None),)).time_limit == PYTHON_TIME_LIMIT
    assert Select(ROW, Select(ROW, S, (python(1.0),)), (POSITIVE,)).time_limit is None


def test_columns_are_traced_to_the_inputs() -> None:
    assert [join().origins(i) for i in (1, 4)] == [((0, 1),), ((1, 1),)]
    assert [lookup().origins(i) for i in (2, 3)] == [((0, 2),), ()]
    assert [EXAMPLES["project"].origins(i) for i in (0, 1)] == [((0, 2),), ()]
    assert EXAMPLES["union"].origins(2) == ((0, 2), (1, 2))
    assert aggregate().origins(0) == ()


def test_an_operator_reads_what_its_expressions_need() -> None:
    assert [sorted(join("semi").reads(i)) for i in (0, 1)] == [[0, 1, 2], [0, 1, 2]]
    assert sorted(lookup().reads(0)) == [1, 2]
    assert sorted(aggregate().reads(0)) == [1, 2]
    assert sorted(EXAMPLES["distinct"].reads(0)) == [0, 1, 2]


def test_unused_aggregates_go_unless_having_reads_them() -> None:
    pruned, places = aggregate().pruned(frozenset({0}))
    assert isinstance(pruned, Aggregate)
    assert [call.name for call in pruned.calls] == ["count"]
    assert places == {0: 0, 2: 1, 3: 2}
    assert pruned.having is not None
    assert pruned.having.columns == {1}
    assert pruned.schema.names == ("key", "count", "deleted")


def test_conditions_on_keys_pass_an_aggregate_but_not_windows_of_rows() -> None:
    assert [aggregate().below(i) for i in range(4)] == [KEY, None, None, None]
    assert aggregate(Window("rows", 10)).below(1) is None


def test_event_times_follow_the_columns() -> None:
    known = S.times(())
    assert known == {0: EventTime()}
    assert EXAMPLES["project"].times([known]) == {}
    assert join().times([known, known]) == {0: EventTime(), 3: EventTime()}
    assert EXAMPLES["union"].times([known, {}]) == {}
    assert EXAMPLES["expand"].times([known]) == {0: EventTime(), 3: EventTime(True, 10)}
    assert aggregate(HOPPING).times([known]) == {0: EventTime(True, 10)}


def test_of_an_unknown_operator_nothing_is_assumed() -> None:
    node = Operator(Schema((Field("a", INT),)))
    assert node.below(0) is None
    assert node.obstacle(0) == "it stands above a operator"
    assert node.strict
    assert source_of(node) is None


def test_a_source_is_reached_through_what_passes_batches_on() -> None:
    assert source_of(Select(ROW, EXAMPLES["select"], (POSITIVE,))) is S
    assert source_of(EXAMPLES["project"]) is None


def test_current_rows_are_divided_by_what_no_change_of_a_row_changes() -> None:
    total = Column(BIGINT, 1)
    assert current_top(total, KEY_BELOW).partition_keys == ((KEY_BELOW,),)
    assert current_top(total).partition_keys == current_top().partition_keys == ()
    assert current_top(total, KEY_BELOW).located(KEY_BELOW) == (KEY_BELOW,)
    assert current_top(total).located(total) is None
    assert current_join().partition_keys == ((KEY, KEY_BELOW),)
    assert current_join().located(Column(STRING, 3)) == (KEY, KEY_BELOW)
    assert current_join("left").located(Column(STRING, 3)) is None
    assert current_join("left").located(KEY) == (KEY, KEY_BELOW)


def test_only_the_stream_of_a_join_with_current_rows_has_event_times() -> None:
    assert current_join().times([{0: EventTime()}, {}]) == {0: EventTime()}
