"""Tumbling, hopping and row windows against a model that looks at every window of every row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Column
from headgate.graph.operators import Aggregate, Source, Union, Window
from headgate.graph.types import BIGINT, TIMESTAMP, WINDOW, Schema
from tests.operators.drive import Feed, Row, drive, feeds, plain
from tests.operators.models import CALLS, INPUT, check_groups, numbered, rows_of

time = Column(TIMESTAMP, 0)
key = Column(BIGINT, 1)
row = rows_of(st.one_of(st.none(), st.integers(-5, 60)))


def aggregate(window: Window, keys: tuple[Column, ...] = (key,), struct: Any = WINDOW) -> Aggregate:
    columns = [("w", struct), *((f"k{i}", k.type) for i, k in enumerate(keys))]
    schema = Schema.of(*columns, *((f"a{i}", call.type) for i, call in enumerate(CALLS)))
    return Aggregate(schema, Source(INPUT, "s"), keys, CALLS, window)


def windows_of(t: int, length: int, slide: int, offset: int) -> list[tuple[int, int]]:
    last = t - (t - offset) % slide
    starts = range(last, t - length, -slide)
    return [(start, start + length) for start in starts]


@given(
    st.lists(feeds(row), min_size=1, max_size=2),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_time_windows(given: list[Feed], length: int, slide: int, offset: int, keyed: bool, seed: int) -> None:
    slide, length = min(slide, length), max(slide, length)
    given = numbered(given)
    node = aggregate(Window("time", length, slide, offset % slide, time), (key,) if keyed else ())
    found = drive(node, [given], seed)
    groups: dict[Any, list[Any]] = defaultdict(list)
    late = 0
    for feed in given:
        for r, watermark in feed.arrivals():
            if r[0] is None:
                continue
            inside = [w for w in windows_of(r[0], length, slide, offset % slide) if w[1] > watermark]
            late += not inside
            for window in inside:
                groups[(window, r[1]) if keyed else (window,)].append(r)
    check_groups(found.rows, groups, 1 + keyed)
    assert found.late == late
    assert found.left == 0


@given(feeds(row), st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_row_windows(feed: Feed, length: int, slide: int, seed: int) -> None:
    slide, length = min(slide, length), max(slide, length)
    (feed,) = numbered([feed])
    struct = pa.struct([("start", BIGINT), ("end", BIGINT)])
    node = aggregate(Window("rows", length, slide), struct=struct)
    found = drive(node, [[feed]], seed)
    groups: dict[Any, list[Any]] = defaultdict(list)
    arrived = [r for r, _ in feed.arrivals()]
    for start in range(0, len(arrived), slide):
        for r in arrived[start : start + length]:
            groups[((start + 1, start + length), r[1])].append(r)
    check_groups(found.rows, groups, 2)


@given(feeds(row), st.integers(1, 8), st.booleans(), st.integers(0, 10**6))
def test_sessions(feed: Feed, gap: int, keyed: bool, seed: int) -> None:
    """As Spark: a row that is not late joins the sessions that it touches and that were not emitted yet."""
    (feed,) = numbered([feed])
    node = aggregate(Window("session", gap, on=time), (key,) if keyed else ())
    found = drive(node, [[feed]], seed)
    late = 0
    closed: list[tuple[Any, Any]] = []
    sessions: dict[Any, list[Any]] = defaultdict(list)
    for rows, watermark in zip(feed.epochs, feed.watermarks(), strict=True):
        for k in list(sessions):
            closed += [(k, s) for s in sessions[k] if s[-1][0] + gap <= watermark]
            sessions[k] = [s for s in sessions[k] if s[-1][0] + gap > watermark]
        for r in rows:
            if r[0] is None:
                continue
            if r[0] + gap <= watermark:
                late += 1
                continue
            k = r[1] if keyed else 0
            touched = [s for s in sessions[k] if s[0][0] <= r[0] + gap and r[0] <= s[-1][0] + gap]
            sessions[k] = [s for s in sessions[k] if s not in touched]
            sessions[k].append(sorted([r, *(x for s in touched for x in s)], key=lambda x: x[0]))
    closed += [(k, s) for k, found_ in sessions.items() for s in found_]
    check_sessions(found.rows, closed, gap, keyed)
    assert found.late == late


@given(st.lists(feeds(row), min_size=2, max_size=2), st.integers(1, 8), st.booleans(), st.integers(0, 10**6))
def test_sessions_behind_a_union(given: list[Feed], gap: int, keyed: bool, seed: int) -> None:
    """Rows at or behind their own stream's watermark are late, so the interleaving does not matter."""
    given = numbered(given)
    node = aggregate(Window("session", gap, on=time), (key,) if keyed else ())
    parts = (Source(INPUT, "s"), Source(INPUT, "t"))
    node = replace(node, input=Union(INPUT, parts))
    found = drive(node, [given], seed)
    by_key: dict[Any, list[Any]] = defaultdict(list)
    late = 0
    for feed in given:
        for r, watermark in feed.arrivals():
            if r[0] is not None and r[0] <= watermark:
                late += 1
            elif r[0] is not None:
                by_key[r[1] if keyed else 0].append(r)
    closed: list[tuple[Any, Any]] = []
    for k, rows in by_key.items():
        session: list[Any] = []
        for r in sorted(rows, key=lambda r: r[0]):
            if session and r[0] > session[-1][0] + gap:
                closed.append((k, session))
                session = []
            session.append(r)
        closed.append((k, session))
    check_sessions(found.rows, closed, gap, keyed)
    assert found.late == late


def check_sessions(found: Sequence[Row], closed: Sequence[tuple[Any, Any]], gap: int, keyed: bool) -> None:
    """Two sessions of a key may have the same span (one had been emitted when the other began)."""
    left = list(found)
    for k, rows in closed:
        window = (rows[0][0], rows[-1][0] + gap)
        name = (window, k) if keyed else (window,)
        same = [r for r in left if tuple(plain(v) for v in r[: len(name)]) == name and r[len(name)] == len(rows)]
        assert same, f"session {name} of {len(rows)} rows is missing"
        left.remove(same[0])
        if len(same) == 1:
            check_groups(same, {name: rows}, len(name))
    assert not left
