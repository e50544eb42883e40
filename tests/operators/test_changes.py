"""Aggregates without a window: the last row of each identity is the result over all rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Aggregate, Source
from headgate.graph.types import BIGINT, BOOLEAN, Schema
from tests.operators.drive import Feed, drive, feeds
from tests.operators.models import CALLS, INPUT, check_groups, expected, numbered, rows_of

key = Column(BIGINT, 1)
row = rows_of(st.one_of(st.none(), st.integers(0, 9)))


def changes(keys: tuple[Column, ...], having: Call | None = None) -> Aggregate:
    columns = [*((f"k{i}", k.type) for i, k in enumerate(keys)), *((f"a{i}", c.type) for i, c in enumerate(CALLS))]
    return Aggregate(Schema.of(*columns, ("deleted", BOOLEAN)), Source(INPUT, "s"), keys, CALLS, None, having)


@given(st.lists(feeds(row), min_size=1, max_size=2), st.integers(0, 10**6))
def test_by_key(given: list[Feed], seed: int) -> None:
    given = numbered(given)
    found = drive(changes((key,)), [given], seed)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for feed in given:
        for r, _ in feed.arrivals():
            groups[(r[1],)].append(r)
    last = {r[0]: r for r in found.rows}
    assert not any(r[-1] for r in found.rows), "nothing is deleted without HAVING"
    check_groups([r[:-1] for r in last.values()], groups, 1)


@given(feeds(row), st.integers(0, 10**6))
def test_without_keys(feed: Feed, seed: int) -> None:
    (feed,) = numbered([feed])
    found = drive(changes(()), [[feed]], seed)
    arrived = [r for r, _ in feed.arrivals()]
    if arrived:
        check_groups([found.rows[-1][:-1]], {(): arrived}, 0)
    else:
        assert found.rows[-1][0] == 0
        assert found.rows[-1][4] is None


@given(feeds(row), st.integers(0, 4), st.integers(0, 10**6))
def test_having(feed: Feed, limit: int, seed: int) -> None:
    """A group is there at the end exactly if it passes then; what never passed is never deleted."""
    (feed,) = numbered([feed])
    over = Call(BOOLEAN, "lt", (Column(BIGINT, 1), Literal(BIGINT, limit)))  # fewer rows than the limit
    found = drive(changes((key,), over), [[feed]], seed)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for r, _ in feed.arrivals():
        groups[(r[1],)].append(r)
    shown: set[Any] = set()
    for r in found.rows:
        assert r[-1] == (r[1] >= limit)
        assert not r[-1] or r[0] in shown
        (shown.discard if r[-1] else shown.add)(r[0])
    assert shown == {k for (k,), rows in groups.items() if expected(rows)[0] < limit}
