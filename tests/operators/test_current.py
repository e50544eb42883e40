"""Operators over the current rows of a query that updates, against the history of those rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Call, Column
from headgate.graph.expressions import Literal as Constant
from headgate.graph.operators import CurrentJoin, CurrentTop, JoinKind, Order, Source, concat
from headgate.graph.operators.operator import LEFT as LEFT_PORT
from headgate.graph.operators.operator import RIGHT as RIGHT_PORT
from headgate.graph.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, Schema
from headgate.operators.batch import FOREVER, NEVER
from headgate.operators.current_join import LiveCurrentJoin
from headgate.operators.live import live
from headgate.operators.settings import Settings
from tests.operators.drive import Feed, Row, batch_of, counted, drive, feeds

Ranking = Literal["row_number", "rank", "dense_rank"]

# Changes: the time that makes the watermark, the identity, a partition that the identity decides, one that it does not,
# a value, and whether the row is deleted.
CHANGES = Schema.of(("ts", TIMESTAMP), ("k", STRING), ("p", BIGINT), ("q", BIGINT), ("v", BIGINT), ("gone", BOOLEAN))
_KEYS = ["a", "b", "c", "d", "e", "f", None]
_PART = {key: number % 2 for number, key in enumerate(_KEYS)}


def _change(ts: int, key: str | None, q: int, v: int | None, gone: bool) -> Row:
    return (ts, key, _PART[key], q, v, gone)


change = st.builds(
    _change,
    st.integers(0, 30),
    st.sampled_from(_KEYS),
    st.integers(0, 1),
    st.one_of(st.none(), st.integers(0, 4)),
    st.booleans(),
)


def top(partition: Sequence[int], ranking: Ranking, count: int, descending: bool, having: bool) -> CurrentTop:
    schema = Schema((*CHANGES.fields, *Schema.of(("rank", INT), ("deleted", BOOLEAN)).fields))
    keys = tuple(Column(CHANGES[i].type, i) for i in partition)
    order = (Order(Column(BIGINT, 4), descending, not descending),)
    odd = Call(BOOLEAN, "gt", (Column(BIGINT, 4), Constant(BIGINT, 1))) if having else None
    identity, gone = (Column(STRING, 1),), Column(BOOLEAN, 5)
    return CurrentTop(schema, Source(CHANGES, "s"), keys, order, count, ranking, identity, gone, odd)


def first_rows(
    current: dict[Any, Row], partition: Sequence[int], ranking: Ranking, count: int, descending: bool, having: bool
) -> dict[Any, tuple[Row, int]]:
    """The rows that should be shown, with their ranks, by identity."""
    parts: dict[Any, list[Row]] = defaultdict(list)
    for row in current.values():
        parts[tuple(row[i] for i in partition)].append(row)
    found: dict[Any, tuple[Row, int]] = {}

    def place(row: Row) -> tuple[int, int]:
        if row[4] is None:
            return (1, 0) if descending else (-1, 0)
        return (0, -row[4] if descending else row[4])

    for rows in parts.values():
        rows.sort(key=lambda row: (place(row), row[1] is not None, row[1]))
        for number, row in enumerate(rows):
            lower = [other for other in rows if place(other) < place(row)]
            ranks = {
                "row_number": number + 1,
                "rank": len(lower) + 1,
                "dense_rank": len({place(other) for other in lower}) + 1,
            }
            if ranks[ranking] <= count and not (having and (row[4] is None or row[4] <= 1)):
                found[row[1]] = (row, ranks[ranking])
    return found


@pytest.mark.parametrize("ranking", ["row_number", "rank", "dense_rank"])
@given(
    feeds(change),
    st.sampled_from([(), (2,), (3,), (2, 3)]),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_top(
    ranking: Ranking, feed: Feed, partition: tuple[int, ...], count: int, descending: bool, having: bool, seed: int
) -> None:
    """What was emitted adds up to the first rows; nothing is deleted that was not shown, nor shown again unchanged."""
    found = drive(top(partition, ranking, count, descending, having), [[feed]], seed)
    current: dict[Any, Row] = {}
    for row, _ in feed.arrivals():
        current.pop(row[1], None)
        if not row[5]:
            current[row[1]] = row
    shown: dict[Any, tuple[Row, int]] = {}
    for *columns, rank, deleted in found.rows:
        row = tuple(columns)
        if deleted:
            assert shown.pop(row[1])[1] == rank
        else:
            # Unchanged rows are emitted again only after a change of the row below.
            shown[row[1]] = (row, rank)
    assert {key: (row[1:], rank) for key, (row, rank) in shown.items()} == {
        key: (row[1:], rank)
        for key, (row, rank) in first_rows(current, partition, ranking, count, descending, having).items()
    }
    assert found.left >= len(current)


LEFT = Schema.of(("at", TIMESTAMP), ("k", STRING), ("x", BIGINT))
left_row = st.tuples(
    st.one_of(st.none(), st.integers(0, 30)), st.sampled_from(_KEYS), st.one_of(st.none(), st.integers(0, 4))
)


def join(how: JoinKind, keyed: bool, residual: bool) -> CurrentJoin:
    left, right = Source(LEFT, "t"), Source(CHANGES, "s")
    schema = LEFT if how in ("semi", "anti") else concat(LEFT, CHANGES)
    keys = ((Column(STRING, 1),), (Column(STRING, 1),)) if keyed else ((), ())
    rest = (Call(BOOLEAN, "le", (Column(BIGINT, 2), Column(BIGINT, 7))),) if residual else ()
    own = ((Column(STRING, 1),), Column(BOOLEAN, 5), rest)
    return CurrentJoin(schema, left, right, how, Column(TIMESTAMP, 0), *keys, *own)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@given(feeds(left_row), feeds(change), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_join(how: JoinKind, left: Feed, right: Feed, keyed: bool, residual: bool, seed: int) -> None:
    """A row meets the rows as the changes left them that came while the right watermark had not passed its time."""
    with patch.object(LiveCurrentJoin, "spare", seed % 3):
        found = drive(join(how, keyed, residual), [[left], [right]], seed)
    in_time = [(row, mark) for row, mark in left.arrivals() if row[0] is None or row[0] > mark]
    wanted: Counter[Row] = Counter()
    for row, _ in in_time:
        current: dict[Any, Row] = {}
        for changed, mark in right.arrivals():
            if row[0] is None or mark < row[0]:
                current.pop(changed[1], None)
                if not changed[5]:
                    current[changed[1]] = changed
        partners = [
            other
            for other in current.values()
            if (not keyed or (row[1] is not None and row[1] == other[1]))
            and (not residual or (row[2] is not None and other[4] is not None and row[2] <= other[4]))
        ]
        if how == "semi" or how == "anti":
            wanted[row] += bool(partners) == (how == "semi")
        else:
            wanted.update(row + other for other in partners)
            wanted[row + (None,) * 6] += how == "left" and not partners
    assert counted(found.rows) == counted((+wanted).elements())
    assert found.late == len(list(left.arrivals())) - len(in_time)


def test_a_key_whose_hash_is_that_of_null_does_not_meet_null() -> None:
    schema = Schema.of(("at", TIMESTAMP), ("k", BIGINT))
    changes = Schema.of(("k", BIGINT), ("gone", BOOLEAN))
    key, identity = (Column(BIGINT, 1),), (Column(BIGINT, 0),)
    sources = (Source(schema, "t"), Source(changes, "s"))
    node = CurrentJoin(schema, *sources, "semi", Column(TIMESTAMP, 0), key, identity, identity, Column(BOOLEAN, 1))
    like_null = int(np.uint64(0x9E3779B97F4A7C15).astype(np.int64))
    operator = live(node, Settings())
    operator.process(LEFT_PORT, batch_of(schema, [(1, like_null), (1, 7)], NEVER))
    operator.process(RIGHT_PORT, batch_of(changes, [(None, False), (7, False)], NEVER))
    operator.advance(LEFT_PORT, FOREVER)
    out, _ = operator.advance(RIGHT_PORT, FOREVER)
    assert [row[1] for each in out for row in zip(*(c.to_pylist() for c in each.rows.columns), strict=True)] == [7]
