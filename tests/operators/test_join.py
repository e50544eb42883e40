"""Joins of streams against nested loops."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Call, Column
from headgate.graph.operators import Join, JoinKind, Source, TimeBound, concat
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Schema
from headgate.operators.batch import NEVER, Arrival, Batch
from headgate.operators.live import live
from headgate.operators.settings import Settings
from tests.operators.drive import Feed, batch_of, counted, drive, feeds, plain

INPUT = Schema.of(("ts", TIMESTAMP), ("k", DOUBLE), ("s", STRING), ("v", BIGINT))
row = st.tuples(
    st.one_of(st.none(), st.integers(0, 40)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, float("nan")])),
    st.one_of(st.none(), st.sampled_from(["", "a"])),
    st.integers(0, 3),
)
ts, k, s = Column(TIMESTAMP, 0), Column(DOUBLE, 1), Column(STRING, 2)
different = Call(BOOLEAN, "ne", (Column(BIGINT, 3), Column(BIGINT, 7)))


def join(how: JoinKind, low: int | None, high: int | None, keys: int, residual: bool) -> Join:
    left, right = Source(INPUT, "l"), Source(INPUT, "r")
    schema = INPUT if how in ("semi", "anti") else concat(INPUT, INPUT)
    by = (k, s)[:keys]
    return Join(schema, left, right, how, by, by, TimeBound(ts, ts, low, high), (different,) if residual else ())


def model(
    how: str, left: list[Any], right: list[Any], low: int | None, high: int | None, keys: int, residual: bool
) -> list[Any]:
    def meet(a: Any, b: Any) -> bool:
        if a[0] is None or b[0] is None or any(a[i] is None or b[i] is None for i in range(1, keys + 1)):
            return False
        near = (low is None or b[0] - a[0] >= low) and (high is None or b[0] - a[0] <= high)
        same = all(plain(a[i]) == plain(b[i]) for i in range(1, keys + 1))
        return near and same and (not residual or a[3] != b[3])

    pairs = [(x, y) for x, y in itertools.product(range(len(left)), range(len(right))) if meet(left[x], right[y])]
    with_partner = ({x for x, _ in pairs}, {y for _, y in pairs})
    nothing = (None,) * 4
    if how == "semi":
        return [left[x] for x in sorted(with_partner[0])]
    alone_left = [left[x] for x in range(len(left)) if x not in with_partner[0]]
    if how == "anti":
        return alone_left
    out = [left[x] + right[y] for x, y in pairs]
    if how in ("left", "full"):
        out += [r + nothing for r in alone_left]
    if how in ("right", "full"):
        out += [nothing + right[y] for y in range(len(right)) if y not in with_partner[1]]
    return out


@pytest.mark.parametrize("how", get_args(JoinKind))
@given(
    st.lists(feeds(row), min_size=1, max_size=2),
    feeds(row),
    st.one_of(st.none(), st.integers(-10, 5)),
    st.one_of(st.none(), st.integers(-5, 10)),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_joins(
    how: JoinKind,
    left: list[Feed],
    right: Feed,
    low: int | None,
    high: int | None,
    keys: int,
    residual: bool,
    seed: int,
) -> None:
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
    found = drive(join(how, low, high, keys, residual), [left, [right]], seed)
    given = [[(r, watermark) for feed in side for r, watermark in feed.arrivals()] for side in (left, [right])]
    late = sum(r[0] is not None and r[0] <= watermark for side in given for r, watermark in side)
    rows = [[r for r, watermark in side if r[0] is None or r[0] > watermark] for side in given]
    assert counted(found.rows) == counted(model(how, rows[0], rows[1], low, high, keys, residual))
    assert found.late == late


def test_state_is_forgotten() -> None:
    """Many batches with moving time: what is kept is bounded by the time bound, not by what has come."""
    epochs = tuple(tuple((t * 10 + i, float(i), "a", i) for i in range(10)) for t in range(300))
    feed = Feed(epochs, 0)
    node = join("inner", -5, 5, 1, False)
    operator = live(node, Settings())
    most = 0
    for rows, watermark in zip(feed.epochs, feed.watermarks(), strict=True):
        for port in (0, 1):
            operator.process(port, batch_of(INPUT, rows, watermark))
            operator.advance(port, rows[-1][0])
        most = max(most, operator.state_rows)
    assert most < 200
    assert pa.total_allocated_bytes() >= operator.state_bytes > 0


@pytest.mark.parametrize("how", ["inner", "semi", "left"])
def test_results_are_as_old_as_the_rows_that_made_them(how: JoinKind) -> None:
    """Batches of one side that are taken before the first of the other do not make its results younger."""
    operator = live(join(how, 0, 0, 1, False), Settings())
    for second in (1, 2, 3):
        batch = batch_of(INPUT, [(second, 1.0, "a", 0)], NEVER)
        operator.process(0, Batch(batch.rows, Arrival.at(100.0 + second, 1), batch.watermark))
    for second in (1, 2):
        batch = batch_of(INPUT, [(second, 1.0, "a", 0)], NEVER)
        made = operator.process(1, Batch(batch.rows, Arrival.at(100.0 + second, 1), batch.watermark))
        assert [(b.rows.num_rows, b.arrival.first) for b in made] == [(1, 100.0 + second)]
    # The third has no partner, which is known when the other side is past it.
    alone, _ = operator.advance(1, 10)
    assert [b.arrival.first for b in alone] == ([103.0] if how == "left" else [])
