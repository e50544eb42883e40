"""Rows as JSON texts, made with Arrow's text kernels: no loop over rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.json import json_lines

_CONTROL = r"[\x00-\x1f]"


def json_texts(table: pa.Table, end: str = "") -> pa.ChunkedArray:
    """The JSON object of each row, followed by `end`.

    >>> json_texts(pa.table({"a": [1, None], "b": ['x"', "y"]})).to_pylist()
    ['{"a":1,"b":"x\\\\""}', '{"a":null,"b":"y"}']
    """
    if not table.num_rows:
        return pa.chunked_array([], pa.string())
    parts: list[pa.Scalar | pa.ChunkedArray] = []
    before = "{"
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = _values(column)
        if values is None:
            # Nested values and texts with control characters are rare: they take the slow path.
            lines = json_lines(ignore_nulls=False)(table).decode().split("\n")[:-1]
            return pa.chunked_array([pc.binary_join_element_wise(pa.array(lines), end, "")])
        parts += [pa.scalar(f"{before}{json.dumps(name, ensure_ascii=False)}:"), values]
        before = ","
    joined = pc.binary_join_element_wise(*parts, "}" + end, "")
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The JSON text of each value, or None if it cannot be made with kernels."""
    kind = column.type
    texts: pa.ChunkedArray
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        texts = column.cast(pa.string())
        if not pc.all(pc.is_finite(column)).as_py():
            return None
    elif pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        texts = _quoted(pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{zone}"))
    elif pa.types.is_date(kind):
        texts = _quoted(column.cast(pa.string()))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
            return None
        texts = column.cast(pa.string())
        for sign in ("\\", '"'):
            if pc.any(pc.match_substring(texts, sign)).as_py():
                texts = pc.replace_substring(texts, sign, "\\" + sign)
        texts = _quoted(texts)
    else:
        return None
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _quoted(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise('"', texts, '"', "")
