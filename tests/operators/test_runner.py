"""The runner as a whole: results, late counts, restarts; sizes of state; incremental snapshots."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.expressions.aggregates.grouping import Groups
from headgate.expressions.errors import EvaluationError
from headgate.expressions.functions import accumulator
from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Aggregate, AggregateCall, Join, Project, Select, Source, TimeBound, Window, concat
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, INT, TIMESTAMP, WINDOW, Schema
from headgate.operators.batch import NEVER
from headgate.operators.live import live
from headgate.operators.runner import Runner
from headgate.operators.settings import Settings
from tests.operators.drive import Row, batch_of, counted

ROWS = Schema.of(("ts", TIMESTAMP), ("k", BIGINT), ("v", BIGINT))
S, T = Source(ROWS, "s", 0, 5), Source(ROWS, "t", 0, 0)
ts, k, v = Column(TIMESTAMP, 0), Column(BIGINT, 1), Column(BIGINT, 2)
TOTAL = (AggregateCall("sum", (v,), BIGINT),)
TUMBLING = Aggregate(
    Schema.of(("w", WINDOW), ("k", BIGINT), ("n", BIGINT)), S, (k,), TOTAL, Window("time", 10, 10, 0, ts)
)
CHANGES = Aggregate(Schema.of(("k", BIGINT), ("n", BIGINT), ("deleted", BOOLEAN)), S, (k,), TOTAL)


def graph() -> SharedGraph:
    over = Select(ROWS, S, (Call(BOOLEAN, "gt", (v, Literal(BIGINT, 1))),))
    join = Join(concat(ROWS, ROWS), S, T, "left", (k,), (k,), TimeBound(ts, ts, -3, 3))
    visible = Project(
        Schema.of(("total", BIGINT), ("k", BIGINT), ("deleted", BOOLEAN)),
        CHANGES,
        (Column(BIGINT, 1), Column(BIGINT, 0), Column(BOOLEAN, 2)),
    )
    found = SharedGraph()
    found.add(Query("over", over, ROWS))
    found.add(Query("windows", TUMBLING, TUMBLING.schema))
    found.add(Query("join", join, join.schema))
    found.add(Query("changes", visible, Schema.of(("total", BIGINT)), mode="update"))
    return found


def push(runner: Runner, stream: str, rows: list[Row]) -> None:
    runner.push(stream, batch_of(ROWS, rows, NEVER).rows)


row = st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 3))
pushes = st.lists(st.tuples(st.sampled_from("st"), st.lists(row, min_size=1, max_size=6)), max_size=8)


@given(pushes, st.integers(0, 8))
def test_restart_anywhere(given: list[tuple[str, list[Row]]], restart: int) -> None:
    """A runner that is restored from a snapshot ends with the results of one that was never stopped."""
    steady, stopped = Runner(graph()), Runner(graph())
    for number, (stream, rows) in enumerate(given):
        if number == restart:
            state = stopped.snapshot()
            stopped = Runner(graph())
            stopped.restore(state)
        push(steady, stream, rows)
        push(stopped, stream, rows)
    steady.finish()
    stopped.finish()
    for query in ("over", "windows", "join", "changes"):
        first, second = (r.results(query) for r in (steady, stopped))
        assert first.schema == second.schema
        assert counted([tuple(x.values()) for x in first.to_pylist()]) == counted(
            [tuple(x.values()) for x in second.to_pylist()]
        )
    assert steady.late_rows == stopped.late_rows


def test_results() -> None:
    runner = Runner(graph())
    push(runner, "s", [(1, 0, 1), (12, 0, 2), (30, 1, 3)])
    assert runner.results("windows").num_rows == 2, "the watermark is 25: two windows have ended"
    push(runner, "s", [(2, 0, 100), (31, 1, 4)])
    runner.finish()
    assert runner.late_rows["windows"] == 1
    assert sorted(x["n"] for x in runner.results("windows").to_pylist()) == [1, 2, 7]
    assert sorted(x["total"] for x in runner.results("changes").to_pylist()) == [7, 103]
    assert runner.results("over").num_rows == 4
    assert runner.results("join").column_names == [*ROWS.names, *ROWS.names]


def test_nothing_pushed() -> None:
    runner = Runner(graph())
    runner.finish()
    assert runner.results("windows").schema.types == list(TUMBLING.schema.types)
    assert runner.results("changes").num_rows == 0


def test_a_stream_that_no_query_reads() -> None:
    with pytest.raises(KeyError, match="no query reads a stream named u; the streams read are: s, t"):
        push(Runner(graph()), "u", [(1, 1, 1)])


def test_snapshots_are_incremental() -> None:
    """Parts that did not change keep their names, and what is new is small."""
    node = Join(concat(ROWS, ROWS), S, T, "inner", (k,), (k,), TimeBound(ts, ts, -3, 3))
    operator = live(node, Settings())
    operator.process(0, batch_of(ROWS, [(1, i, i) for i in range(10_000)], NEVER))
    before = operator.snapshot()
    operator.process(0, batch_of(ROWS, [(1, 1, 1)], NEVER))
    after = operator.snapshot()
    new = set(after.parts) - set(before.parts)
    assert set(before.parts) < set(after.parts)
    assert sum(after.parts[name].nbytes for name in new) < before.nbytes / 100
    for name in before.parts:
        assert before.parts[name].equals(after.parts[name])


def test_hopping_state_is_panes_times_groups() -> None:
    """Ten times the rows in the same panes and groups leave the state as it is, up to runs that are not merged yet."""
    schema = Schema.of(("w", WINDOW), ("k", BIGINT), ("n", BIGINT))
    node = Aggregate(schema, S, (k,), TOTAL, Window("time", 60, 10, 0, ts))

    def state(times: int) -> tuple[int, int]:
        operator = live(node, Settings())
        for batch in range(12):
            rows = [(batch * 5 + i % 5, i % 20, 1) for i in range(20 * times)]
            operator.process(0, batch_of(ROWS, rows, NEVER))
            operator.snapshot()
        return operator.state_rows, operator.state_bytes

    few, many = state(10), state(100)
    panes, groups = 6, 20
    assert panes * groups <= many[0] <= 2 * panes * groups
    assert many[1] <= 1.5 * few[1]


def test_sums_overflow_as_in_spark() -> None:
    operator = live(TUMBLING, Settings())
    operator.process(0, batch_of(ROWS, [(1, 1, 2**63 - 1), (2, 1, 2**63 - 1), (3, 1, -(2**63))], NEVER))
    (made,), _ = operator.advance(0, 10)
    assert made.rows.column(2).to_pylist() == [2**63 - 2], "only the sum itself has to fit"
    operator.process(0, batch_of(ROWS, [(11, 1, 2**63 - 1), (12, 1, 1)], 10))
    with pytest.raises(EvaluationError, match="ARITHMETIC_OVERFLOW"):
        operator.advance(0, 20)


def test_decimal_sums_overflow() -> None:
    wide = pa.decimal128(38, 0)
    state = accumulator(AggregateCall("sum", (Column(wide, 0),), wide))
    values = pa.array([10**38 - 1, 10**38 - 1], wide)
    groups = Groups([], 2)
    _, (columns,) = groups.reduce([state.partial([values], groups)])
    with pytest.raises(EvaluationError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        state.result(columns)


def test_approximate_counts_are_near() -> None:
    schema = Schema.of(("w", WINDOW), ("n", BIGINT))
    call = AggregateCall("approx_count_distinct", (v,), BIGINT)
    node = Aggregate(schema, S, (), (call,), Window("time", 10, 10, 0, ts))
    for count in (1, 10, 100, 1_000, 50_000):
        operator = live(node, Settings())
        for start in (0, count // 2):
            rows = [(1, 0, start + i) for i in range(count - count // 2)]
            operator.process(0, batch_of(ROWS, rows, NEVER))
        (made,), _ = operator.advance(0, 10)
        different = len({start + i for start in (0, count // 2) for i in range(count - count // 2)})
        assert made.rows.column(1)[0].as_py() == pytest.approx(different, rel=0.15)


def test_unknown_functions_and_windows_are_refused() -> None:
    with pytest.raises(ValueError, match="ARRAY<INT> cannot be a key"):
        live(Aggregate(CHANGES.schema, S, (Column(pa.list_(INT), 1),), TOTAL), Settings())
    with pytest.raises(ValueError, match="there is no aggregate function median"):
        live(Aggregate(CHANGES.schema, S, (k,), (AggregateCall("median", (v,), DOUBLE),)), Settings())
