"""Converts between Spark types and Arrow types, for the types that a column of a stream may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from headgate.graph import types as ours
from headgate.graph.types import Schema, sql_name

_PLAIN: tuple[tuple[pa.DataType, Callable[[], spark.DataType]], ...] = (
    (ours.BOOLEAN, spark.BooleanType),
    (ours.TINYINT, spark.ByteType),
    (ours.SMALLINT, spark.ShortType),
    (ours.INT, spark.IntegerType),
    (ours.BIGINT, spark.LongType),
    (ours.FLOAT, spark.FloatType),
    (ours.DOUBLE, spark.DoubleType),
    (ours.STRING, spark.StringType),
    (ours.BINARY, spark.BinaryType),
    (ours.DATE, spark.DateType),
    (ours.TIMESTAMP, spark.TimestampType),
    (ours.TIMESTAMP_NTZ, spark.TimestampNTZType),
    (ours.INTERVAL, spark.DayTimeIntervalType),
    (ours.NULL, spark.NullType),
)


class UnsupportedType(ValueError):
    """A type that no column of a stream can have."""


def to_spark(type_: pa.DataType) -> spark.DataType:
    """The Spark type of an Arrow type.

    >>> to_spark(pa.list_(pa.int32())).simpleString()
    'array<int>'
    """
    for arrow, make in _PLAIN:
        if arrow == type_:
            return make()
    if pa.types.is_decimal(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    if pa.types.is_map(type_):
        return spark.MapType(to_spark(type_.key_type), to_spark(type_.item_type))
    if pa.types.is_list(type_):
        return spark.ArrayType(to_spark(type_.value_type))
    if pa.types.is_struct(type_):
        return spark.StructType([spark.StructField(part.name, to_spark(part.type), part.nullable) for part in type_])
    raise UnsupportedType(f"Spark has no type for Arrow's {type_}; cast it to one of Spark SQL's types")


def to_arrow(type_: Any) -> pa.DataType:
    """The Arrow type of a Spark type. Members of arrays, maps and structs are nullable, as in `headgate.graph`.

    >>> str(to_arrow(spark.DecimalType(10, 2)))
    'decimal128(10, 2)'
    """
    if isinstance(type_, spark.StringType):  # CHAR(n), VARCHAR(n) and collations are strings too
        return ours.STRING
    for arrow, make in _PLAIN:
        if isinstance(type_, make):  # type: ignore[arg-type]
            return arrow
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, spark.ArrayType):
        return pa.list_(to_arrow(type_.elementType))
    if isinstance(type_, spark.MapType):
        return pa.map_(to_arrow(type_.keyType), to_arrow(type_.valueType))
    if isinstance(type_, spark.StructType):
        return pa.struct([pa.field(part.name, to_arrow(part.dataType)) for part in type_.fields])
    raise UnsupportedType(
        f"{type_.simpleString().upper()} is a Spark type that Arrow cannot carry; cast it to STRING or a number"
    )


def spark_schema(schema: Schema) -> spark.StructType:
    """A schema as Spark's."""
    return spark.StructType([spark.StructField(f.name, to_spark(f.type), f.nullable) for f in schema.fields])


def ddl(schema: Schema) -> str:
    """A schema as the column list of a CREATE TABLE.

    >>> ddl(Schema.of(("a b", pa.int32())))
    '`a b` INT'
    """
    return ", ".join(f"`{f.name.replace('`', '``')}` {sql_name(f.type)}" for f in schema.fields)
