"""Column types: Arrow's types, and their names in Spark SQL.

TIMESTAMP is an instant, kept in UTC microseconds; TIMESTAMP_NTZ has no zone. The session's time zone is
applied by the functions that need it (hour, cast to date …), never stored in a column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

BOOLEAN = pa.bool_()
TINYINT = pa.int8()
SMALLINT = pa.int16()
INT = pa.int32()
BIGINT = pa.int64()
FLOAT = pa.float32()
DOUBLE = pa.float64()
STRING = pa.string()
BINARY = pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
TIME = pa.time64("us")
INTERVAL = pa.duration("us")
NULL = pa.null()
WINDOW = pa.struct([pa.field("start", TIMESTAMP), pa.field("end", TIMESTAMP)])
WINDOW_NTZ = pa.struct([pa.field("start", TIMESTAMP_NTZ), pa.field("end", TIMESTAMP_NTZ)])

_NAMES: dict[pa.DataType, str] = {
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INT",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    STRING: "STRING",
    BINARY: "BINARY",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    TIME: "TIME",
    INTERVAL: "INTERVAL DAY TO SECOND",
    NULL: "VOID",
}


def sql_name(type_: pa.DataType) -> str:
    """The Spark SQL name of a type, as error messages and DDL show it.

    >>> sql_name(pa.decimal128(10, 2)), sql_name(pa.list_(pa.int32()))
    ('DECIMAL(10,2)', 'ARRAY<INT>')
    >>> sql_name(pa.struct([("a", pa.int32()), ("0", pa.int32())]))
    'STRUCT<a:INT,`0`:INT>'
    """
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        return f"MAP<{sql_name(type_.key_type)},{sql_name(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_name(type_.value_type)}>"
    if pa.types.is_struct(type_):
        inside = ",".join(f"{_member(part.name)}:{sql_name(part.type)}" for part in type_)
        return f"STRUCT<{inside}>"
    return str(type_).upper()


def _member(name: str) -> str:
    """The name of a struct's member, in backquotes unless it is a plain word."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


def is_integral(type_: pa.DataType) -> bool:
    """TINYINT, SMALLINT, INT or BIGINT."""
    return bool(pa.types.is_signed_integer(type_))


def is_numeric(type_: pa.DataType) -> bool:
    """Any integral, floating-point or decimal type."""
    return is_integral(type_) or bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def is_time(type_: pa.DataType) -> bool:
    """A type that event time may have: TIMESTAMP or TIMESTAMP_NTZ."""
    return bool(pa.types.is_timestamp(type_))


def is_key(type_: pa.DataType) -> bool:
    """Whether operators can compare and order values of a type: all but arrays, maps and structs that hold them.

    >>> is_key(WINDOW), is_key(pa.list_(INT)), is_key(pa.struct([("a", pa.list_(INT))]))
    (True, False, False)
    """
    if pa.types.is_struct(type_):
        return all(is_key(part.type) for part in type_)
    return not pa.types.is_nested(type_)


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a schema. The name is a label: two operators that differ only in names are equal."""

    name: str = field(compare=False)
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of an operator's output, in order."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(*columns: tuple[str, pa.DataType]) -> Schema:
        """A schema of nullable columns.

        >>> Schema.of(("a", INT)).names
        ('a',)
        """
        return Schema(tuple(Field(name, type_) for name, type_ in columns))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(f.type for f in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    def arrow(self) -> pa.Schema:
        """The same as an Arrow schema."""
        return pa.schema([pa.field(f.name, f.type, f.nullable) for f in self.fields])
