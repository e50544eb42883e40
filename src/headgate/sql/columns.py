"""Converts types declared in SQL to Arrow types."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from headgate.graph import types as t
from headgate.sql.dialect import start
from headgate.sql.errors import Script

_SIMPLE: dict[exp.DType, pa.DataType] = {
    exp.DType.BOOLEAN: t.BOOLEAN,
    exp.DType.TINYINT: t.TINYINT,
    exp.DType.SMALLINT: t.SMALLINT,
    exp.DType.INT: t.INT,
    exp.DType.BIGINT: t.BIGINT,
    exp.DType.FLOAT: t.FLOAT,
    exp.DType.DOUBLE: t.DOUBLE,
    exp.DType.TEXT: t.STRING,
    exp.DType.VARCHAR: t.STRING,
    exp.DType.CHAR: t.STRING,
    exp.DType.BINARY: t.BINARY,
    exp.DType.VARBINARY: t.BINARY,
    exp.DType.DATE: t.DATE,
    exp.DType.TIMESTAMP: t.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: t.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: t.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: t.TIMESTAMP_NTZ,
}


def arrow_type(declared: exp.DataType, script: Script, at: int | None = None) -> pa.DataType:
    """The Arrow type of a declared type; SqlError if it is not supported."""
    at = start(declared) if at is None else at
    kind = declared.this
    inside = declared.expressions
    if kind in _SIMPLE:
        if inside and t.is_time(_SIMPLE[kind]) and str(inside[0].name or inside[0].this) != "6":
            raise script.error("a TIMESTAMP has 6 digits of a second; write it without a precision", at)
        return _SIMPLE[kind]
    if kind == exp.DType.DECIMAL:
        return _decimal(inside, script, at)
    if kind == exp.DType.ARRAY and len(inside) == 1:
        return pa.list_(_inner(inside[0], script, at))
    if kind == exp.DType.MAP and len(inside) == 2:
        return pa.map_(_inner(inside[0], script, at), _inner(inside[1], script, at))
    if kind == exp.DType.STRUCT and inside:
        fields = []
        for part in inside:
            if not isinstance(part, exp.ColumnDef) or not isinstance(part.args.get("kind"), exp.DataType):
                raise script.error("a STRUCT is written STRUCT<name: TYPE, …>", at)
            fields.append(pa.field(part.name, arrow_type(part.args["kind"], script, at)))
        return pa.struct(fields)
    if kind == exp.DType.INTERVAL or isinstance(kind, exp.Interval):
        if declared.sql(dialect="spark").upper() != t.sql_name(t.INTERVAL):
            message = f"type {declared.sql(dialect='spark')} is not supported; write INTERVAL DAY TO SECOND"
            raise script.error(message, at)
        return t.INTERVAL
    name = kind.value if isinstance(kind, exp.DType) and not inside else declared.sql(dialect="spark")
    raise script.error(f"type {name} is not supported", at)


def _inner(part: exp.Expr, script: Script, at: int) -> pa.DataType:
    if not isinstance(part, exp.DataType):
        raise script.error(f"{part.sql(dialect='spark')} is not a type", at)
    return arrow_type(part, script, at)


def _decimal(inside: list[exp.Expr], script: Script, at: int) -> pa.DataType:
    numbers = [str(part.name or part.this) for part in inside]
    if not all(n.isdigit() for n in numbers) or len(numbers) > 2:
        raise script.error("a decimal is written DECIMAL(precision, scale)", at)
    precision = int(numbers[0]) if numbers else 10
    scale = int(numbers[1]) if len(numbers) > 1 else 0
    if not 1 <= precision <= 38 or scale > precision:
        raise script.error(f"DECIMAL({precision},{scale}): precision is 1 to 38, scale at most the precision", at)
    return pa.decimal128(precision, scale)
