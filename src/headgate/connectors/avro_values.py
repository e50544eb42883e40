"""Avro values of messages: Spark SQL that decodes and encodes them, plain or behind the header of a schema registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headgate.connectors.contract import quoted
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.types import Schema, sql_name

AVRO_SCHEMA = OptionDeclaration("avro_schema", "with value_format avro: the schema of the values, as JSON")
AVRO_FRAMING = OptionDeclaration(
    "avro_framing",
    "with value_format avro: what is before a value: nothing, or a zero and the schema's number in 4 bytes (registry)",
    choices=("none", "registry"),
    default="none",
)
AVRO_SCHEMA_ID = OptionDeclaration(
    "avro_schema_id",
    "with avro_framing registry: the schema's number: the sink writes it before each value; to the source, a value with"
    " another number is malformed (without the option the number is ignored, and a value of another schema may be read"
    " as a wrong one)",
    "integer",
)
AVRO_OPTIONS = (AVRO_SCHEMA, AVRO_FRAMING, AVRO_SCHEMA_ID)

_SQL_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "enum": "STRING",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
"""The Spark types of Avro's types; a logical type takes precedence."""
_WIDER = {"INT": ("BIGINT", "DOUBLE"), "BIGINT": ("DOUBLE",), "FLOAT": ("DOUBLE",)}
"""Types that can be declared instead, since every value fits."""
_DECODED = "_headgate_decoded"
"""A field that is added to the schema with a default: true in every record that could be decoded."""


def avro_problem(options: Mapping[str, str], schema: Schema, reading: bool) -> OptionProblem | None:
    """What is wrong with the options of Avro, for a source (`reading`) or a sink."""
    avro = options.get("value_format") == "avro"
    for option in AVRO_OPTIONS:
        if option.name in options and not avro:
            return OptionProblem(option.name, f"{option.name} needs value_format 'avro'")
    if not avro:
        return None
    framed = options.get(AVRO_FRAMING.name) == "registry"
    if reading and AVRO_SCHEMA_ID.name in options and not framed:
        return OptionProblem(AVRO_SCHEMA_ID.name, "avro_schema_id needs avro_framing 'registry'")
    if AVRO_SCHEMA_ID.name in options and int(options[AVRO_SCHEMA_ID.name]) >= 1 << 32:
        return OptionProblem(AVRO_SCHEMA_ID.name, "avro_schema_id has more than 4 bytes")
    if not reading and framed != (AVRO_SCHEMA_ID.name in options):
        return OptionProblem(AVRO_FRAMING.name, "avro_framing registry and avro_schema_id belong together")
    if AVRO_SCHEMA.name not in options:
        return OptionProblem(None, "value_format avro needs the option avro_schema") if reading else None
    try:
        fields = {field["name"]: field["type"] for field in _record(options[AVRO_SCHEMA.name])["fields"]}
    except (ValueError, KeyError, TypeError):
        return OptionProblem(AVRO_SCHEMA.name, "avro_schema is no Avro record as JSON")
    if not reading:
        return None
    given = {name.lower(): _sql_type(type_) for name, type_ in fields.items()}
    for column in schema.fields:
        wanted = sql_name(column.type)
        if column.name.lower() not in given:
            has = ", ".join(fields)
            return OptionProblem(AVRO_SCHEMA.name, f"avro_schema has no field {column.name}; it has {has}")
        found = given[column.name.lower()]
        if found is not None and wanted not in (found, "STRING", *_WIDER.get(found, ())):
            hint = f"declare {column.name} {found}"
            return OptionProblem(AVRO_SCHEMA.name, f"avro_schema has {column.name} as {found}, not {wanted}; {hint}")
    return None


def decoded(value: str, options: Mapping[str, str]) -> tuple[str, str]:
    """Spark SQL for the struct of a value, and for whether the value could be decoded (over a column `row` of it)."""
    schema = _record(options[AVRO_SCHEMA.name])
    asked = {**schema, "fields": [*schema["fields"], {"name": _DECODED, "type": "boolean", "default": True}]}
    settings = f"map('mode', 'PERMISSIVE', 'avroSchema', '{quoted(json.dumps(asked))}')"
    payload = value
    if options.get(AVRO_FRAMING.name) == "registry":
        number = options.get(AVRO_SCHEMA_ID.name)
        framed = f"substring({value}, 1, 1) = X'00' AND length({value}) > 4"
        if number is not None:
            framed = f"substring({value}, 1, 5) = {_header(number)}"
        payload = f"IF({framed}, substring({value}, 6), X'')"
    return f"from_avro({payload}, '{quoted(json.dumps(schema))}', {settings})", f"row.{_DECODED}"


def encoded(row: str, options: Mapping[str, str]) -> str:
    """Spark SQL for the value of a struct."""
    schema = options.get(AVRO_SCHEMA.name)
    value = f"to_avro({row})" if schema is None else f"to_avro({row}, '{quoted(schema)}')"
    if options.get(AVRO_FRAMING.name) != "registry":
        return value
    return f"concat({_header(options[AVRO_SCHEMA_ID.name])}, {value})"


def _header(number: str) -> str:
    """Spark SQL for what a registry's client writes before a value.

    >>> _header("258")
    "X'0000000102'"
    """
    return f"X'00{int(number):08X}'"


def _sql_type(avro: Any) -> str | None:
    """The type that Spark reads a field as; None for nested and other types, which Spark checks.

    >>> _sql_type(["null", "int"]), _sql_type({"type": "int", "logicalType": "date"}), _sql_type(["int", "string"])
    ('INT', 'DATE', None)
    """
    if isinstance(avro, list):
        left = [each for each in avro if each != "null"]
        return _sql_type(left[0]) if len(left) == 1 else None
    if isinstance(avro, dict):
        logical = avro.get("logicalType")
        return _SQL_TYPES.get(logical) if logical is not None else _sql_type(avro.get("type"))
    return _SQL_TYPES.get(avro) if isinstance(avro, str) else None


def _record(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ValueError("no record")
    return found
