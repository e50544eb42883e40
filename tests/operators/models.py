"""Aggregate functions in plain Python, and rows to run them on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Schema
from tests.operators.drive import Feed, Row, plain

MONEY = pa.decimal128(10, 2)
INPUT = Schema.of(
    ("ts", TIMESTAMP), ("k", BIGINT), ("i", BIGINT), ("f", DOUBLE), ("s", STRING), ("d", MONEY), ("n", BIGINT)
)
i, f, s, d, n = (Column(INPUT[c].type, c) for c in range(2, 7))
positive = Call(BOOLEAN, "gt", (i, Literal(BIGINT, 0)))


def rows_of(times: st.SearchStrategy[int | None]) -> st.SearchStrategy[Row]:
    """Rows of INPUT; the last column is filled by `numbered`."""
    return st.tuples(
        times,
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**60), 2**60)),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, float("nan")])),
        st.one_of(st.none(), st.sampled_from(["", "a", "b", "ä"])),
        st.one_of(st.none(), st.integers(-(10**9), 10**9).map(lambda v: Decimal(v) / 100)),
        st.just(0),
    )


def numbered(feeds: Sequence[Feed]) -> list[Feed]:
    """The same feeds with a different number in the last column of every row."""
    count = 0
    made = []
    for feed in feeds:
        epochs = []
        for rows in feed.epochs:
            epochs.append(tuple((*row[:-1], count + at) for at, row in enumerate(rows)))
            count += len(rows)
        made.append(Feed(tuple(epochs), feed.delay, feed.time))
    return made


CALLS = (
    AggregateCall("count", (), BIGINT),
    AggregateCall("count", (i, s), BIGINT),
    AggregateCall("count", (), BIGINT, where=positive),
    AggregateCall("count_if", (positive,), BIGINT),
    AggregateCall("sum", (i,), BIGINT),
    AggregateCall("sum", (i,), BIGINT, where=positive),
    AggregateCall("sum", (d,), pa.decimal128(20, 2)),
    AggregateCall("avg", (d,), pa.decimal128(14, 6)),
    AggregateCall("avg", (i,), DOUBLE),
    AggregateCall("min", (f,), DOUBLE),
    AggregateCall("max", (f,), DOUBLE),
    AggregateCall("min", (s,), STRING),
    AggregateCall("max", (d,), MONEY),
    AggregateCall("bool_and", (positive,), BOOLEAN),
    AggregateCall("bool_or", (positive,), BOOLEAN),
    AggregateCall("stddev_samp", (d,), DOUBLE),
    AggregateCall("var_pop", (d,), DOUBLE),
    AggregateCall("skewness", (d,), DOUBLE),
    AggregateCall("kurtosis", (d,), DOUBLE),
    AggregateCall("corr", (d, n), DOUBLE),
    AggregateCall("covar_samp", (d, n), DOUBLE),
    AggregateCall("min_by", (s, n), STRING),
    AggregateCall("max_by", (s, n), STRING, where=positive),
    AggregateCall("count", (s, f), BIGINT, distinct=True),
    AggregateCall("sum", (i,), BIGINT, distinct=True),
    AggregateCall("approx_count_distinct", (s,), BIGINT),
)


def expected(rows: Sequence[Row]) -> list[Any]:
    """What CALLS give over some rows."""
    ints = [r[2] for r in rows if r[2] is not None]
    above = [v for v in ints if v > 0]
    floats = [r[3] for r in rows if r[3] is not None]
    texts = [r[4] for r in rows if r[4] is not None]
    money = [r[5] for r in rows if r[5] is not None]
    pairs = [(float(r[5]), float(r[6])) for r in rows if r[5] is not None]
    late = [r for r in rows if r[2] is not None and r[2] > 0]
    return [
        len(rows),
        sum(r[2] is not None and r[4] is not None for r in rows),
        len(above),
        len(above),
        sum(ints) if ints else None,
        sum(above) if above else None,
        sum(money) if money else None,
        (sum(money) / len(money)).quantize(Decimal("0.000001"), ROUND_HALF_UP) if money else None,
        math.fsum(map(float, ints)) / len(ints) if ints else None,
        min(floats, key=_order, default=None),
        max(floats, key=_order, default=None),
        min(texts, key=str.encode, default=None),
        max(money, default=None),
        all(v > 0 for v in ints) if ints else None,
        any(v > 0 for v in ints) if ints else None,
        statistics.stdev(map(float, money)) if len(money) > 1 else None,
        statistics.pvariance(map(float, money)) if money else None,
        _moment(money, 3),
        _moment(money, 4),
        _correlation(pairs),
        statistics.covariance(*zip(*pairs, strict=True)) if len(pairs) > 1 else None,
        min(rows, key=lambda r: r[6])[4],
        max(late, key=lambda r: r[6])[4] if late else None,
        len({(r[4], plain(r[3])) for r in rows if r[4] is not None and r[3] is not None}),
        sum(set(ints)) if ints else None,
        len(set(texts)),
    ]


_UNEVEN = 1e-5
"""How exact the third and fourth moments are where values are close together and far from zero: the mean's last digit
counts."""


def _order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def _moment(values: Sequence[Decimal], degree: int) -> float | None:
    """Skewness (3) or excess kurtosis (4), in exact arithmetic up to the last step."""
    if not values:
        return None
    mean = sum(values) / len(values)
    square = float(sum((v - mean) ** 2 for v in values))
    if len(set(values)) == 1:
        return None
    power = float(sum((v - mean) ** degree for v in values))
    if degree == 3:
        return math.sqrt(len(values)) * power / math.sqrt(square**3)
    return len(values) * power / square**2 - 3.0


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    xs, ys = zip(*pairs, strict=True) if pairs else ((), ())
    if len(set(xs)) < 2 or len(set(ys)) < 2:
        return None
    return statistics.correlation(xs, ys)


def check_groups(found: Sequence[Row], groups: Mapping[Any, Sequence[Row]], keys: int) -> None:
    """Compares the rows that were emitted with the functions over the rows of each group."""
    assert all(len(row) == keys + len(CALLS) for row in found)
    by_key = {tuple(plain(v) for v in row[:keys]): row[keys:] for row in found}
    assert len(by_key) == len(found), "a group was emitted twice"
    assert set(by_key) == set(groups)
    for key, rows in groups.items():
        # Sums of floating numbers of either sign are as exact as the largest of them allows.
        slack = 1e-9 + 1e-14 * sum(abs(r[2]) for r in rows if r[2] is not None)
        for call, got, wanted in zip(CALLS, by_key[key], expected(rows), strict=True):
            close = got == wanted or plain(got) == plain(wanted)
            if not close and isinstance(wanted, float) and isinstance(got, float):
                near = {"avg": slack, "skewness": _UNEVEN, "kurtosis": _UNEVEN}.get(call.name, 1e-9)
                close = got == pytest.approx(wanted, rel=1e-9, abs=near)
            assert close, f"{call.text} of {key}: {got}, expected {wanted}"
