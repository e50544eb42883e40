"""Tumbling, hopping and row windows against a model that looks at every window of every row."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Column
from headgate.graph.operators import Aggregate, Source, Window
from headgate.graph.types import BIGINT, TIMESTAMP, WINDOW, Schema
from tests.operators.drive import Feed, drive, feeds
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


@given(st.lists(feeds(row), min_size=1, max_size=2), st.integers(1, 8), st.booleans(), st.integers(0, 10**6))
def test_sessions(given: list[Feed], gap: int, keyed: bool, seed: int) -> None:
    given = numbered(given)
    node = aggregate(Window("session", gap, on=time), (key,) if keyed else ())
    found = drive(node, [given], seed)
    by_key: dict[Any, list[Any]] = defaultdict(list)
    late = 0
    for feed in given:
        for r, watermark in feed.arrivals():
            if r[0] is None:
                continue
            if r[0] < watermark:
                late += 1
            else:
                by_key[r[1] if keyed else 0].append(r)
    groups: dict[Any, list[Any]] = {}
    for k, rows in by_key.items():
        session: list[Any] = []
        for r in [*sorted(rows, key=lambda r: r[0]), None]:
            if session and (r is None or r[0] > session[-1][0] + gap):
                window = (session[0][0], session[-1][0] + gap)
                groups[(window, k) if keyed else (window,)] = session
                session = []
            session.append(r)
    check_groups(found.rows, groups, 1 + keyed)
    assert found.late == late
