"""Results as JSON: columns with their types, and rows as objects."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.graph.types import sql_name


def columns(schema: pa.Schema) -> list[dict[str, str]]:
    """Names and SQL types; duplicate names are made unique."""
    names = unique_names(schema.names)
    return [{"name": name, "type": sql_name(field.type)} for name, field in zip(names, schema, strict=True)]


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON values.

    >>> json_rows(pa.table({"a": [1.0, float("nan")], "b": [b"x", None]}))
    [{'a': 1.0, 'b': 'eA=='}, {'a': 'NaN', 'b': None}]
    """
    names = unique_names(table.column_names)
    found = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*found, strict=True)] if found else []


def plain(value: Any) -> Any:
    """A value for JSON: times in ISO 8601, bytes in Base64, decimals, durations, NaN and infinities as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta | Decimal):
        return str(value)
    return str(value)


def dumps(value: Any) -> bytes:
    """A value as compact JSON; figures that are not finite become null."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def unique_names(names: Sequence[str]) -> list[str]:
    """Makes names unique, for the keys of an object.

    >>> unique_names(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
