"""Replaces bytes in texts that are not UTF-8. Spark keeps them (`CAST(value AS STRING)`); Arrow and Python refuse them.

An unreadable byte becomes U+FFFD, as in rows that Spark parses from JSON and CSV.
"""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.types import STRING


def valid_text(sql: str, type_: pa.DataType, depth: int = 0) -> str:
    """Spark SQL for a value whose texts are all valid. Keys of maps stay as they are: two could become equal.

    >>> valid_text("`k`", STRING), valid_text("`n`", pa.int32())
    ('make_valid_utf8(`k`)', '`n`')
    >>> valid_text("`a`", pa.list_(STRING))
    'transform(`a`, e0 -> make_valid_utf8(e0))'
    """
    element = f"e{depth}"
    if type_ == STRING:
        return f"make_valid_utf8({sql})"
    if not _has_text(type_):
        return sql
    if pa.types.is_map(type_):
        inside = valid_text(element, type_.item_type, depth + 1)
        return f"transform_values({sql}, (k{depth}, {element}) -> {inside})"
    if pa.types.is_list(type_):
        return f"transform({sql}, {element} -> {valid_text(element, type_.value_type, depth + 1)})"
    members = ((part.name.replace("`", "``"), part.type) for part in type_)
    parts = ", ".join(f"{valid_text(f'{element}.`{name}`', part, depth + 1)} AS `{name}`" for name, part in members)
    # One element, so that a computed struct is computed once.
    return f"element_at(transform(array({sql}), {element} -> IF({element} IS NULL, NULL, struct({parts}))), 1)"


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return _has_text(type_.item_type)
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(place).type) for place in range(type_.num_fields))
    return bool(type_ == STRING)
