"""Queries and graphs as JSON: `written` gives the text, `read` the objects. Reading imports and executes nothing.

    {"nodes": [{"arrow": "int32"}, {"class": "Column", "type": {"node": 0}, "index": 2}, …], "value": {"node": 17}}

Objects of `headgate.graph` and Arrow types are nodes. Equal nodes are written once, inputs first: many queries over
one graph take little more space than one. Strings, integers, booleans and None are written as JSON values, a tuple as
an array; every other value is an object with one member, whose name is the kind of value.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.graph import types as t
from headgate.graph.event_times import EventTime
from headgate.graph.operators.operator import Clause
from headgate.graph.queries import Query, QueryClass, Sink, Stream, Table
from headgate.graph.specs import Spec
from headgate.graph.structural import Structural
from headgate.graph.types import Field, Schema


class GraphFormatError(ValueError):
    """A value cannot be written as JSON, or a text is not that of a graph; the message says which."""


def written(value: Any) -> str:
    """The JSON of a value: plain Python values, containers of them, and everything of `headgate.graph`."""
    writer = _Writer()
    last = writer.text(value)
    return f'{{"nodes":[{",".join(writer.nodes)}],"value":{last}}}'


def read(text: str | Mapping[str, Any]) -> Any:
    """The value that a JSON text holds; the text may be parsed already (`json.loads`)."""
    found = json.loads(text) if isinstance(text, str) else text
    nodes: list[Any] = []
    for node in found["nodes"]:
        nodes.append(_node(node, nodes))
    return _value(found["value"], nodes)


def _classes() -> Iterator[type]:
    """Every class of `headgate.graph` whose objects can be part of a graph."""
    yield from (Field, Schema, EventTime, Query, QueryClass, Sink, Spec, Stream, Table)
    found: list[type] = [Structural, Clause]
    for each in found:
        found += each.__subclasses__()
    yield from (each for each in found[2:] if each.__module__.startswith("headgate.graph."))


# These types are written by name; every other type is written as the schema of one column in Arrow's own format.
_PLAIN_TYPES: dict[str, pa.DataType] = {
    str(each): each
    for each in (
        *(t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.STRING, t.BINARY, t.DATE),
        *(t.TIMESTAMP, t.TIMESTAMP_NTZ, t.TIME, t.INTERVAL, t.NULL),
    )
}
_CLASSES: dict[str, type] = {each.__name__: each for each in _classes()}
_FIELDS: dict[type, tuple[str, ...]] = {each: tuple(part.name for part in fields(each)) for each in _CLASSES.values()}

_quoted = json.encoder.encode_basestring_ascii


class _Writer:
    """Writes values; `nodes` are the texts of the nodes so far."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self._known: dict[str, str] = {}
        # By identity: an object that is used many times is traversed once.
        self._seen: dict[int, str] = {}

    def text(self, value: Any) -> str:
        cls = type(value)
        if cls is str:
            return _quoted(value)
        if cls in _FIELDS or isinstance(value, pa.DataType):
            seen = self._seen.get(id(value))
            if seen is None:
                seen = self._seen[id(value)] = self._reference(value)
            return seen
        if cls is tuple:
            return f"[{','.join([self.text(part) for part in value])}]"
        if value is None:
            return "null"
        if cls is bool:
            return "true" if value else "false"
        if cls is int:
            return repr(value)
        if cls is float and math.isfinite(value):
            return repr(value)
        return self._tagged(value)

    def _reference(self, value: Any) -> str:
        if isinstance(value, pa.DataType):
            node = f'{{"arrow":{_type_text(value)}}}'
        else:
            names = _FIELDS[type(value)]
            inside = ",".join([f'"{name}":{self.text(getattr(value, name))}' for name in names])
            node = f'{{"class":"{type(value).__name__}",{inside}}}'
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = f'{{"node":{len(self.nodes)}}}'
            self.nodes.append(node)
        return known

    def _tagged(self, value: Any) -> str:
        match value:
            case float():
                return f'{{"float":"{value!r}"}}'
            case Decimal():
                return f'{{"decimal":"{value}"}}'
            case datetime():
                return f'{{"datetime":"{value.isoformat()}"}}'
            case date():
                return f'{{"date":"{value.isoformat()}"}}'
            case time():
                return f'{{"time":"{value.isoformat()}"}}'
            case timedelta():
                # Only the SQL layer knows the fields of a day-time interval; the graph has one type for all of them.
                return f'{{"interval":[{value.days},{value.seconds},{value.microseconds}]}}'
            case bytes():
                return f'{{"bytes":"{base64.b64encode(value).decode()}"}}'
            case list():
                return f'{{"list":[{",".join([self.text(part) for part in value])}]}}'
            case frozenset():
                return f'{{"set":[{",".join(sorted(self.text(part) for part in value))}]}}'
            case Mapping():
                pairs = [f"[{self.text(key)},{self.text(part)}]" for key, part in value.items()]
                return f'{{"dict":[{",".join(pairs)}]}}'
        raise GraphFormatError(f"a {type(value).__module__}.{type(value).__qualname__} cannot be written as JSON")


def _type_text(type_: pa.DataType) -> str:
    name = str(type_)
    if _PLAIN_TYPES.get(name) == type_:
        return _quoted(name)
    schema = pa.schema([pa.field("", type_)]).serialize().to_pybytes()
    return f'{{"schema":"{base64.b64encode(schema).decode()}"}}'


def _type(found: Any) -> pa.DataType:
    if isinstance(found, str):
        if found not in _PLAIN_TYPES:
            raise GraphFormatError(f"the graph has a type {found!r}, which this Headgate does not know")
        return _PLAIN_TYPES[found]
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"]))).field(0).type


def _node(found: Mapping[str, Any], nodes: list[Any]) -> Any:
    if "arrow" in found:
        return _type(found["arrow"])
    cls = _CLASSES.get(str(found.get("class")))
    if cls is None:
        raise GraphFormatError(f"the graph has a {found.get('class')!r}, which this Headgate does not know")
    values = {name: _value(value, nodes) for name, value in found.items() if name != "class"}
    try:
        return cls(**values)
    except TypeError as error:
        raise GraphFormatError(f"the graph has a {cls.__name__} that this Headgate cannot make: {error}") from error


def _value(found: Any, nodes: list[Any]) -> Any:
    if isinstance(found, list):
        return tuple([_value(part, nodes) for part in found])
    if not isinstance(found, dict):
        return found
    ((kind, inside),) = found.items()
    if kind == "node":
        return nodes[inside]
    if kind in _KINDS:
        return _KINDS[kind](inside)
    if kind == "list":
        return [_value(part, nodes) for part in inside]
    if kind == "set":
        return frozenset([_value(part, nodes) for part in inside])
    if kind == "dict":
        return {_value(key, nodes): _value(part, nodes) for key, part in inside}
    raise GraphFormatError(f"the graph has a value of kind {kind!r}, which this Headgate does not know")


_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "interval": lambda parts: timedelta(*parts),
    "bytes": base64.b64decode,
}
