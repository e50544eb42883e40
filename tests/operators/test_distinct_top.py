"""Distinct rows and top-N against sets and sorting."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Column
from headgate.graph.operators import Distinct, Order, Source, Top
from headgate.graph.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, WINDOW, Schema
from tests.operators.drive import Feed, counted, drive, feeds, plain

ROWS = Schema.of(("ts", TIMESTAMP), ("f", DOUBLE), ("s", STRING))
row = st.tuples(
    st.one_of(st.none(), st.integers(0, 20)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan")])),
    st.one_of(st.none(), st.sampled_from(["", "a"])),
)


@given(st.lists(feeds(row), min_size=1, max_size=2), st.integers(0, 10**6))
def test_distinct(given: list[Feed], seed: int) -> None:
    found = drive(Distinct(ROWS, Source(ROWS, "s"), Column(TIMESTAMP, 0)), [given], seed)
    arrived = [(r, watermark) for feed in given for r, watermark in feed.arrivals()]
    in_time = [r for r, watermark in arrived if r[0] is None or r[0] > watermark]
    wanted = counted(in_time)
    assert counted(found.rows) == dict.fromkeys(wanted, 1)
    assert found.late == len(arrived) - len(in_time)


def test_distinct_windows() -> None:
    """Rows with a struct are compared by its members."""
    schema = Schema.of(("w", WINDOW), ("ts", TIMESTAMP))
    window = {"start": 0, "end": 10}
    feed = Feed((((window, 5), ({"start": 0, "end": 20}, 5), (None, 5), (window, 5), (None, 5)),), 0, time=1)
    found = drive(Distinct(schema, Source(schema, "s"), Column(TIMESTAMP, 1)), [[feed]], 1)
    assert counted(found.rows) == {((0, 10), 5): 1, ((0, 20), 5): 1, (None, 5): 1}


TOP = Schema.of(("ts", TIMESTAMP), ("p", BIGINT), ("f", DOUBLE), ("s", STRING), ("n", BIGINT))
ranked = st.tuples(
    st.one_of(st.none(), st.integers(0, 3).map(lambda v: v * 10)),
    st.one_of(st.none(), st.integers(0, 1)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, -3.5, float("nan")])),
    st.one_of(st.none(), st.sampled_from(["", "a", "ä"])),
    st.just(0),
)


@pytest.mark.parametrize("ranking", ["row_number", "rank", "dense_rank"])
@given(
    st.lists(feeds(ranked), min_size=1, max_size=2),
    st.tuples(*[st.booleans()] * 4),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
def test_top(
    ranking: Literal["row_number", "rank", "dense_rank"],
    given: list[Feed],
    choices: tuple[bool, bool, bool, bool],
    count: int,
    seed: int,
) -> None:
    order = (
        Order(Column(DOUBLE, 2), choices[0], choices[1]),
        Order(Column(STRING, 3), choices[2], choices[3]),
    )
    partition = (Column(TIMESTAMP, 0), Column(BIGINT, 1))
    schema = Schema.of(*((f.name, f.type) for f in TOP.fields), ("rank", INT))
    node = Top(schema, Source(TOP, "s"), partition, order, count, ranking, Column(TIMESTAMP, 0))
    found = drive(node, [given], seed)
    groups: dict[Any, list[Any]] = defaultdict(list)
    late = 0
    for feed in given:
        for r, watermark in feed.arrivals():
            if r[0] is not None and r[0] <= watermark:
                late += 1
            else:
                groups[r[0], r[1]].append(r)
    wanted = []
    for rows in groups.values():
        places = sorted(_place(r, choices) for r in rows)
        for r in sorted(rows, key=lambda r: _place(r, choices)):
            below = [p for p in places if p < _place(r, choices)]
            if ranking == "rank":
                wanted.append((*r, len(below) + 1))
            elif ranking == "dense_rank":
                wanted.append((*r, len(set(below)) + 1))
        if ranking == "row_number":
            # Which of equal rows comes first is not said, so only the order columns are compared.
            wanted += [(*rows[0][:2], place, number + 1) for number, place in enumerate(places)]
    wanted = [r for r in wanted if r[-1] <= count]
    rows = found.rows
    if ranking == "row_number":
        rows = [(*r[:2], _place(tuple(map(plain, r[:2])) + r[2:], choices), r[-1]) for r in rows]
    assert counted(rows) == counted(wanted)
    assert found.late == late


def _place(r: Any, choices: tuple[bool, ...]) -> Any:
    f = None if r[2] is None else (2.0 if r[2] != r[2] else r[2] + 0.0)
    t = None if r[3] is None else {"": 0.0, "a": 1.0, "ä": 2.0}[r[3]]
    return (*_term(f, choices[0], choices[1]), *_term(t, choices[2], choices[3]))


def _term(value: float | None, descending: bool, nulls_first: bool) -> tuple[int, float]:
    if value is None:
        return (-1 if nulls_first else 1, 0.0)
    return (0, -value if descending else value)
