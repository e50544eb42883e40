"""Constant parts of expressions are computed once, by their kernels."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from headgate.expressions.calls import call, cast
from headgate.expressions.constants import fold
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)

ONE, TWO = Literal(INT, 1), Literal(INT, 2)
DAY = Literal(INTERVAL, timedelta(days=1))
START = Literal(STRING, "2024-01-01")
BROKEN = call("divide", Literal(DOUBLE, 1.0), Literal(DOUBLE, 0.0))


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (call("add", ONE, TWO), 3),
        (call("multiply", call("add", ONE, TWO), TWO), 6),
        (call("upper", Literal(STRING, "a")), "A"),
        (cast(ONE, BIGINT), 1),
        (cast(Literal(STRING, "0.1"), FLOAT), 0.10000000149011612),
        (cast(ONE, pa.decimal128(5, 2)), Decimal("1.00")),
        (cast(START, DATE), date(2024, 1, 1)),
        (cast(START, TIMESTAMP), datetime(2024, 1, 1, tzinfo=UTC)),
        (cast(START, TIMESTAMP, zone="Europe/Berlin"), datetime(2023, 12, 31, 23, tzinfo=UTC)),
        (cast(START, TIMESTAMP_NTZ), datetime(2024, 1, 1)),
        (call("add", DAY, DAY), timedelta(days=2)),
        (call("coalesce", Literal(INT, None), TWO), 2),
        (call("size", call("array", ONE, TWO)), 2),
        (call("add", ONE, Literal(INT, None)), None),
        (call("pi"), 3.141592653589793),
    ],
    ids=str,
)
def test_a_constant_is_the_literal_that_sql_would_write(expr: Expr, value: object) -> None:
    folded = fold(expr)
    assert folded == Literal(expr.type, value)
    assert type(folded.value) is type(value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "expr",
    [
        BROKEN,
        cast(Literal(STRING, "x"), INT),
        # Python has no year 10000.
        cast(Literal(STRING, "+10000-01-01"), DATE),
        # Spark SQL has no literal for arrays.
        call("array", ONE, TWO),
        Call(INT, "python", (ONE,), "random:randint"),
        call("add", Column(INT, 0), ONE),
        # Too large for the process that plans.
        call("lpad", START, Literal(INT, 2**31 - 1), START),
        call("repeat", Literal(STRING, "x" * 1000), Literal(INT, 2_000_000)),
        call("space", Literal(INT, 2**31 - 1)),
    ],
    ids=lambda expr: expr.text[:60],
)
def test_what_fails_or_varies_or_is_too_large_stays_a_call(expr: Expr) -> None:
    assert fold(expr) == expr


def test_a_computed_constant_cannot_fail() -> None:
    moment = cast(START, TIMESTAMP)
    assert fallible(moment)
    assert not fallible(fold(call("gt", Column(TIMESTAMP, 0), moment)))


def test_a_constant_decides_a_condition_unless_a_term_before_it_may_fail() -> None:
    false, true = Literal(BOOLEAN, False), Literal(BOOLEAN, True)
    plain, risky = Column(BOOLEAN, 0), call("gt", BROKEN, Literal(DOUBLE, 1.0))
    assert fold(call("and", plain, true)) == plain
    assert fold(call("and", plain, false)) == false
    assert fold(call("or", plain, true)) == true
    assert fold(call("and", risky, false)) == call("and", risky, false)
