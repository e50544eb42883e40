"""Cells of the case files: values as text and back, by type.

NULL is null. A string stands bare, or as a JSON string where it is empty, is the word NULL, has a bar or outer
spaces. Timestamps are UTC. A window is `start .. end`; other structs, arrays and maps are JSON.
"""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.graph import types as ours
from headgate.graph.types import sql_name

_PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": ours.BOOLEAN,
    "TINYINT": ours.TINYINT,
    "SMALLINT": ours.SMALLINT,
    "INT": ours.INT,
    "INTEGER": ours.INT,
    "BIGINT": ours.BIGINT,
    "LONG": ours.BIGINT,
    "FLOAT": ours.FLOAT,
    "DOUBLE": ours.DOUBLE,
    "STRING": ours.STRING,
    "BINARY": ours.BINARY,
    "DATE": ours.DATE,
    "TIMESTAMP": ours.TIMESTAMP,
    "TIMESTAMP_NTZ": ours.TIMESTAMP_NTZ,
    "INTERVAL DAY TO SECOND": ours.INTERVAL,
    "VOID": ours.NULL,
    "WINDOW": ours.WINDOW,
}
_BARE = re.compile(r"[^\s|\"][^|\n]*(?<!\s)|[^\s|\"]")


def split_outside(text: str, separator: str, brackets: str = "([<)]>") -> list[str]:
    """Splits a text at a separator outside quotes, brackets and comments."""
    opening, closing = brackets[: len(brackets) // 2], brackets[len(brackets) // 2 :]
    parts, start, depth, quote, i = [], 0, 0, "", 0
    while i < len(text):
        char = text[i]
        if quote:
            if char == "\\" and quote in "'\"":
                i += 1
            elif char == quote:
                quote = ""
        elif char in "'\"`":
            quote = char
        elif text.startswith("--", i):
            i = text.find("\n", i) if "\n" in text[i:] else len(text)
            continue
        elif char in opening:
            depth += 1
        elif char in closing:
            depth -= 1
        elif char == separator and depth <= 0:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    return [*parts, text[start:]]


def parse_type(text: str) -> pa.DataType:
    """A type by its Spark SQL name.

    >>> parse_type("array<struct<a:int,b:decimal(5,2)>>")
    ListType(list<item: struct<a: int32, b: decimal128(5, 2)>>)
    """
    text = " ".join(text.split())
    upper = text.upper()
    if upper in _PLAIN:
        return _PLAIN[upper]
    if found := re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", upper):
        return pa.decimal128(int(found[1]), int(found[2]))
    if upper.startswith("ARRAY<"):
        return pa.list_(parse_type(text[6:-1]))
    if upper.startswith("MAP<"):
        key, value = split_outside(text[4:-1], ",")
        return pa.map_(parse_type(key), parse_type(value))
    if upper.startswith("STRUCT<"):
        members = [m.strip() for m in split_outside(text[7:-1], ",")]
        pairs = [re.split(r"\s*:\s*|\s+", member, maxsplit=1) for member in members]
        return pa.struct([pa.field(name, parse_type(type_)) for name, type_ in pairs])
    raise ValueError(f"the case files know no type {text}")


def type_name(type_: pa.DataType) -> str:
    """The name of a type in a header: Spark's, with WINDOW for the struct that window() gives."""
    return sql_name(type_).replace(sql_name(ours.WINDOW), "WINDOW")


def parse_cell(text: str, type_: pa.DataType) -> Any:
    """The value of a cell."""
    text = text.strip()
    if text == "NULL":
        return None
    if type_ == ours.WINDOW:
        start, end = text.split(" .. ")
        return {"start": parse_cell(start, ours.TIMESTAMP), "end": parse_cell(end, ours.TIMESTAMP)}
    if pa.types.is_nested(type_):
        return _from_json(json.loads(text), type_)
    if pa.types.is_string(type_) and text.startswith('"'):
        return json.loads(text)
    return _scalar(text, type_)


def show_cell(value: Any, type_: pa.DataType) -> str:
    """A value as the text of a cell."""
    if value is None:
        return "NULL"
    if type_ == ours.WINDOW:
        return f"{show_cell(value['start'], ours.TIMESTAMP)} .. {show_cell(value['end'], ours.TIMESTAMP)}"
    if pa.types.is_nested(type_):
        return json.dumps(_to_json(value, type_), ensure_ascii=False)
    if pa.types.is_string(type_) and (value == "NULL" or not _BARE.fullmatch(value)):
        return json.dumps(value, ensure_ascii=False)
    return _text(value, type_)


def _scalar(text: str, type_: pa.DataType) -> Any:
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[text.lower()]
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_date(type_):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(type_):
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if type_.tz else moment
    if pa.types.is_duration(type_):
        return timedelta(microseconds=round(Decimal(text.removesuffix("s")) * 1_000_000))
    if pa.types.is_binary(type_):
        return base64.b16decode(text)
    return text


def _text(value: Any, type_: pa.DataType) -> str:
    if pa.types.is_boolean(type_):
        return str(value).lower()
    if pa.types.is_floating(type_):
        return "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")
    if pa.types.is_timestamp(type_):
        return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
    if pa.types.is_duration(type_):
        micros = value // timedelta(microseconds=1)
        return f"{Decimal(micros) / 1_000_000}s"
    if pa.types.is_binary(type_):
        return base64.b16encode(value).decode()
    return str(value)


def _from_json(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(_from_json(k, type_.key_type), _from_json(v, type_.item_type)) for k, v in value]
    if pa.types.is_list(type_):
        return [_from_json(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {part.name: _from_json(value.get(part.name), part.type) for part in type_}
    return _scalar(value, type_) if isinstance(value, str) else value


def _to_json(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [[_to_json(k, type_.key_type), _to_json(v, type_.item_type)] for k, v in value]
    if pa.types.is_list(type_):
        return [_to_json(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {part.name: _to_json(value[part.name], part.type) for part in type_}
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_string(type_):
        return value
    return _text(value, type_)
