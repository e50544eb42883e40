"""Alternate plans: which queries have some, that all give the same rows, and that a swap loses none."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate.control.plans.alternates import WRITTEN, alternates, reason_not_switchable
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime import Network
from headgate.runtime.dataflow import plan_key
from headgate.sql import Catalog

HERE = "tests.control.plans.test_predicate_order"
SCRIPT = f"""
CREATE STREAM s (ts TIMESTAMP, a INT, b INT, WATERMARK FOR ts AS ts) USING json OPTIONS (path 'unused');
CREATE FUNCTION slow(a INT) RETURNS INT AS '{HERE}:slow';
CREATE FUNCTION quick(b INT) RETURNS INT AS '{HERE}:quick';
CREATE QUERY both AS SELECT a, b FROM s WHERE slow(a) > 2 AND quick(b) > 6 AND a >= 0;
CREATE QUERY one AS SELECT a FROM s WHERE slow(a) > 2 AND b > 0;
CREATE QUERY stateful AS SELECT count(*) AS n FROM s WHERE slow(a) > 2 AND quick(b) > 6;
"""
seen: dict[str, int] = {"slow": 0, "quick": 0}


def slow(a: pa.Array) -> pa.Array:
    if "fail" in seen:
        raise ValueError("failed as asked")
    seen["slow"] += len(a)
    return pc.bit_wise_and(a, 7)


def quick(b: pa.Array) -> pa.Array:
    if "fail" in seen:
        raise ValueError("failed as asked")
    seen["quick"] += len(b)
    return pc.bit_wise_and(b, 7)


@pytest.fixture(scope="module")
def queries() -> dict[str, Query]:
    catalog = Catalog(time_zone="UTC")
    catalog.execute(SCRIPT)
    return dict(catalog.queries)


def network(query: Query) -> Network:
    graph = SharedGraph()
    graph.add(query)
    return Network(graph, "fifo")


def push(into: Network, count: int = 100) -> None:
    times = pa.array([0] * count, pa.timestamp("us", "UTC"))
    numbers = pa.array(range(count), pa.int32())
    into.push("s", pa.record_batch({"ts": times, "a": numbers, "b": pc.multiply(numbers, 3).cast(pa.int32())}))


def taken(from_: Network, query: str) -> list[tuple[int, int]]:
    rows = [row for result in from_.take(query) for row in result.rows.to_pylist()]
    return sorted((row["a"], row["b"]) for row in rows)


def until_the_first_function_ran(running: Network) -> None:
    while not any(seen.values()):
        assert running.step()


def under(query: Query, name: str) -> Query:
    return replace(query, plan=alternates(query)[name])


def test_only_selections_by_several_functions_have_other_orders(queries: dict[str, Query]) -> None:
    assert len(alternates(queries["both"])) == len(alternates(queries["stateful"])) == 2
    assert list(alternates(queries["one"])) == [WRITTEN]
    assert alternates(queries["one"])[WRITTEN] == queries["one"].plan


def test_all_plans_give_the_same_rows_and_the_first_function_sees_most(queries: dict[str, Query]) -> None:
    both = queries["both"]
    found = []
    first = []
    for name in alternates(both):
        seen.update(slow=0, quick=0)
        running = network(under(both, name))
        push(running)
        running.run()
        found.append(taken(running, "both"))
        first.append(max(seen, key=lambda function: seen[function]))
    assert found[0] == found[1] != []
    assert sorted(first) == ["quick", "slow"]


def test_a_swap_loses_no_row_and_doubles_none(queries: dict[str, Query]) -> None:
    both = queries["both"]
    written, other = alternates(both)
    running = network(under(both, written))
    push(running)
    waiting = running.waiting
    seen.update(slow=0, quick=0)
    running.swap(under(both, other))
    assert running.waiting == waiting >= 100
    assert seen == {"slow": 0, "quick": 0}, "rows that wait in front of the selections need not be processed first"
    push(running)
    running.run()
    expected = network(both)
    push(expected)
    push(expected)
    expected.run()
    assert taken(running, "both") == taken(expected, "both") != []


def test_a_swap_below_an_aggregate_keeps_its_state(queries: dict[str, Query]) -> None:
    counted = queries["stateful"]
    written, other = alternates(counted)
    assert reason_not_switchable(alternates(counted)[written], alternates(counted)[other]) is None
    running = network(under(counted, written))
    push(running)
    running.run()
    running.swap(under(counted, other))
    push(running)
    running.run()
    last = [row["n"] for result in running.take("stateful") for row in result.rows.to_pylist()][-1]
    seen.update(slow=0, quick=0)
    expected = network(queries["both"])
    push(expected)
    push(expected)
    expected.run()
    assert last == len(taken(expected, "both")) > 0


def test_a_swap_that_would_lose_state_is_refused(queries: dict[str, Query]) -> None:
    running = network(queries["stateful"])
    push(running)
    changed = replace(queries["stateful"], plan=queries["both"].plan)
    with pytest.raises(ValueError, match="keeps its plan"):
        running.swap(changed)
    assert running.queries["stateful"].plan == queries["stateful"].plan


def test_what_waits_between_two_operators_that_go_is_processed_first(queries: dict[str, Query]) -> None:
    both = queries["both"]
    written, other = alternates(both)
    running = network(under(both, written))
    seen.update(slow=0, quick=0)
    push(running)
    until_the_first_function_ran(running)
    seen.update(slow=0, quick=0)
    push(running)
    running.swap(under(both, other))
    # The rows that had passed the first of the two functions have passed the second; the others wait.
    assert sorted(seen.values())[0] == 0 < sorted(seen.values())[1] < 100
    running.run()
    expected = network(both)
    push(expected)
    push(expected)
    expected.run()
    assert taken(running, "both") == taken(expected, "both") != []


def test_a_query_that_fails_while_its_plan_changes_stays_failed(queries: dict[str, Query]) -> None:
    both = queries["both"]
    written, other = alternates(both)
    running = network(under(both, written))
    seen.update(slow=0, quick=0)
    push(running)
    until_the_first_function_ran(running)
    seen["fail"] = 1
    try:
        running.swap(under(both, other))
    finally:
        del seen["fail"]
    assert "as asked" in running.failures["both"].error
    assert running.failures["both"].plan == plan_key(under(both, other))
    assert "both" not in running.queries
