"""Functions are found by name, and types are what Spark's rules say."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger

from headgate.expressions.functions import (
    UnknownFunction,
    WrongArguments,
    can_cast,
    common_type,
    is_aggregate,
    resolve,
    resolve_aggregate,
)
from headgate.expressions.registry import ALIASES, FUNCTIONS, typed
from headgate.expressions.rules import takes
from headgate.graph.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Schema,
    sql_name,
)
from headgate.spark.types import spark_schema, to_arrow


def test_a_call_is_native_only_where_there_is_a_kernel() -> None:
    assert resolve("upper", [STRING]).native
    assert not FUNCTIONS["md5"].native
    assert not resolve("md5", [STRING]).native


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="upper is registered twice"):
        typed("upper", types=takes((STRING,), STRING))


def test_aliases_lead_to_functions() -> None:
    assert set(ALIASES.values()) <= set(FUNCTIONS)


def test_unknown_functions_name_the_closest() -> None:
    with pytest.raises(UnknownFunction) as caught:
        resolve("uper", [STRING])
    assert caught.value.closest == "upper"


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("add", (INT, BOOLEAN), "+ does not take INT and BOOLEAN; cast one of them"),
        ("upper", (), "upper takes 1 argument, not 0"),
        ("substring", (STRING,), "substring takes 2 to 3 arguments, not 1"),
        ("eq", (INT, BOOLEAN), "the two sides of = must have one type"),
        ("and", (INT, BOOLEAN), "AND takes conditions, not INT"),
        ("round", (STRING, INT), "the scale of round must be a literal INT"),
        ("hour", (BOOLEAN,), "hour takes TIMESTAMP as its first argument, not BOOLEAN"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(name: str, types: tuple[pa.DataType, ...], message: str) -> None:
    with pytest.raises(WrongArguments, match=re.escape(message)):
        resolve(name, types)


_DECIMAL = pa.decimal128


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ((INT, BIGINT), BIGINT),
        ((INT, FLOAT), DOUBLE),
        ((BIGINT, DOUBLE), DOUBLE),
        ((INT, _DECIMAL(2, 1)), _DECIMAL(11, 1)),
        ((_DECIMAL(38, 10), _DECIMAL(38, 0)), _DECIMAL(38, 0)),
        ((INT, STRING), BIGINT),
        ((STRING, _DECIMAL(5, 2)), DOUBLE),
        ((STRING, DATE), DATE),
        ((DATE, TIMESTAMP), TIMESTAMP),
        ((TIMESTAMP_NTZ, TIMESTAMP), TIMESTAMP),
        ((pa.null(), INT), INT),
        ((pa.list_(INT), pa.list_(BIGINT)), pa.list_(BIGINT)),
    ],
)
def test_common_types(types: tuple[pa.DataType, ...], common: pa.DataType) -> None:
    assert common_type(types) == common
    assert common_type(tuple(reversed(types))) == common


def test_casts_that_are_refused() -> None:
    refused = [(BOOLEAN, DATE), (DATE, INT), (TIMESTAMP, BOOLEAN), (INT, DATE), (INT, BINARY), (INT, pa.list_(INT))]
    assert not any(can_cast(given, wanted) for given, wanted in refused)


_ATOMIC = (BOOLEAN, TINYINT, INT, BIGINT, FLOAT, _DECIMAL(10, 2), _DECIMAL(38, 18), STRING, DATE, TIMESTAMP)
_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "mod": "%", "eq": "=", "div": "div"}


def _typed() -> dict[str, pa.DataType | None]:
    """Operators, casts and common types over all pairs of atomic types; None where Headgate refuses them."""
    found: dict[str, pa.DataType | None] = {}
    for (i, first), (j, second) in itertools.product(enumerate(_ATOMIC), repeat=2):
        for name, sign in _OPERATORS.items():
            try:
                found[f"c{i} {sign} c{j}"] = resolve(name, (first, second)).result
            except WrongArguments:
                found[f"c{i} {sign} c{j}"] = None
        found[f"CAST(c{i} AS {sql_name(second)})"] = second if can_cast(first, second) else None
        try:
            found[f"coalesce(c{i}, c{j})"] = common_type((first, second))
        except WrongArguments:
            found[f"coalesce(c{i}, c{j})"] = None
    return found


@pytest.mark.spark
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_types_of_operators_and_casts_are_sparks(every: int, spark: Any) -> None:
    """All accepted calls at once; of the refused ones, which Spark analyzes one by one, every fifth (slow: all)."""
    rows = spark.createDataFrame([], spark_schema(Schema.of(*((f"c{i}", t) for i, t in enumerate(_ATOMIC)))))
    typed = _typed()
    taken = [text for text, type_ in typed.items() if type_ is not None]
    theirs = rows.selectExpr(*taken).schema
    # Spark has several interval types, Arrow has one.
    wrong = [
        f"{text}: Spark {field.dataType.simpleString()}, Headgate {typed[text]}"
        for text, field in zip(taken, theirs, strict=True)
        if not field.dataType.simpleString().startswith("interval") and to_arrow(field.dataType) != typed[text]
    ]
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    for text in [text for text, type_ in typed.items() if type_ is None][::every]:
        with contextlib.suppress(AnalysisException):
            wrong.append(f"{text}: Spark {rows.selectExpr(text).schema[0].dataType.simpleString()}, Headgate refuses")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "types", "result"),
    [
        ("count", (), BIGINT),
        ("sum", (INT,), BIGINT),
        ("sum", (FLOAT,), DOUBLE),
        ("sum", (_DECIMAL(20, 2),), _DECIMAL(30, 2)),
        ("avg", (_DECIMAL(20, 2),), _DECIMAL(24, 6)),
        ("avg", (INT,), DOUBLE),
        ("avg", (INTERVAL,), INTERVAL),
        ("max", (STRING,), STRING),
        ("stddev", (INT,), DOUBLE),
        ("every", (BOOLEAN,), BOOLEAN),
        ("count_if", (BOOLEAN,), BIGINT),
        ("min_by", (STRING, INT), STRING),
    ],
)
def test_aggregates(name: str, types: tuple[pa.DataType, ...], result: pa.DataType) -> None:
    assert is_aggregate(name)
    assert resolve_aggregate(name, types).result == result


def test_aggregates_that_grow_are_refused() -> None:
    with pytest.raises(WrongArguments, match="collect_list is not supported on streams: the state would grow"):
        resolve_aggregate("collect_list", [INT])
