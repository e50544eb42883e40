"""What clients see of an engine, as plain values for JSON: streams, queries, classes, the graph, figures and rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.engine import Engine
from headgate.explanation.explained import Explanation
from headgate.graph.queries import Query, Stream, Table
from headgate.graph.secrets import masked
from headgate.graph.types import Schema, sql_name
from headgate.server.dead_letters import newest_dead_letters
from headgate.server.masking import Secrets
from headgate.server.query_graph import drawing, live_figures

_FRESH = 0.25
"""Seconds for which computed metrics are reused."""


@dataclass(frozen=True)
class DrawnGraph:
    """The drawing of a graph, the number of each operator by its key, and the operators that read each stream."""

    of: object
    drawn: dict[str, Any]
    numbers: dict[str, int]
    readers: dict[str, list[str]]


class EngineView:
    """Reads an engine for clients. Any thread may call it.

    - `secrets`: texts that are masked; `rows`: the most rows of one answer
    - `version`: number of changes so far, incremented by `changed`
    """

    def __init__(self, engine: Engine, secrets: Secrets, rows: int) -> None:
        self.engine = engine
        self.secrets = secrets
        self.version = 0
        self._rows = rows
        self._drawn: DrawnGraph | None = None
        self._metrics: tuple[float, dict[str, Any]] | None = None

    def changed(self) -> None:
        """Called after something was registered, dropped or set."""
        self.version += 1
        self._metrics = None

    def metrics(self) -> dict[str, Any]:
        """`Engine.metrics`, at most a quarter of a second old, with `read`: rows read from each stream."""
        known = self._metrics
        if known is not None and time.monotonic() - known[0] < _FRESH:
            return known[1]
        found = self.engine.metrics()
        graph = self._graph()
        live = live_figures(found, graph.numbers)["operators"]
        found["read"] = {
            stream: max((live[each]["rows_in"] for each in readers if each in live), default=0)
            for stream, readers in graph.readers.items()
        }
        for query in found["queries"].values():
            if query["error"]:
                query["error"] = self.secrets.masked(query["error"])
        self._metrics = (time.monotonic(), found)
        return found

    def streams(self) -> list[dict[str, Any]]:
        """The streams and static tables."""
        streams = [_stream(each) for each in dict(self.engine.catalog.streams).values()]
        tables = [_table(each) for each in dict(self.engine.catalog.tables).values()]
        return [*streams, *tables]

    def queries(self) -> list[dict[str, Any]]:
        """The queries as declared, with their state and figures."""
        figures = self.metrics()["queries"]
        return [_query(each, figures.get(name, {}), self.secrets) for name, each in self.engine.queries.items()]

    def query(self, name: str) -> dict[str, Any]:
        """One query; EngineError if there is none of this name."""
        known = self.engine.declared(name).name
        return _query(self.engine.queries[known], self.metrics()["queries"].get(known, {}), self.secrets)

    def classes(self) -> list[dict[str, Any]]:
        """The classes with their figures."""
        figures = self.metrics()["classes"]
        queries = self.engine.queries.values()
        return [
            {
                "name": name,
                "priority": each.priority,
                "queries": sum(query.cls.name == name for query in queries),
                **{
                    key: figures[name][key] for key in ("latency", "queue_rows", "rows") if key in figures.get(name, {})
                },
            }
            for name, each in dict(self.engine.catalog.classes).items()
        ]

    def graph(self) -> dict[str, Any]:
        """The drawing of the graph and its live figures."""
        return {
            **self._graph().drawn,
            "version": self.version,
            "live": live_figures(self.metrics(), self._graph().numbers),
        }

    def live_graph(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The live figures of the graph, with the version of the drawing that they belong to."""
        return {"version": self.version, **live_figures(metrics, self._graph().numbers)}

    def decisions(self, limit: int) -> list[dict[str, Any]]:
        """The newest decisions that the engine has made by itself, oldest first."""
        return self.engine.decisions()[-limit:]

    def results(self, query: str, limit: int) -> pa.Table:
        """The newest rows of a query, oldest first."""
        table = self.engine.results(query)
        return table.slice(max(0, table.num_rows - min(limit, self._rows)))

    def dead_letters(self, limit: int) -> dict[str, Any]:
        """How many malformed rows each stream had since the start, and the newest of them."""
        letters = newest_dead_letters(self.engine.dead_letters, min(limit, self._rows))
        return {"counts": self.metrics()["dead_letters"], "rows": letters}

    def _graph(self) -> DrawnGraph:
        queries = self.engine.queries
        key = (tuple(queries.items()), self.engine.policy, self.engine.replicas)
        known = self._drawn
        if known is None or known.of != key:
            found = self.engine.explain()
            numbers = {each.key: each.number for each in found.operators}
            known = self._drawn = DrawnGraph(key, drawing(found), numbers, _readers(found))
        return known


def _readers(found: Explanation) -> dict[str, list[str]]:
    """The operators that read each stream, by their numbers."""
    streams = {each.number: each.detail for each in found.operators if not each.inputs}
    readers: dict[str, list[str]] = {name: [] for name in streams.values()}
    for step in found.operators:
        for number in step.inputs:
            if number in streams:
                readers[streams[number]].append(str(step.number))
    return readers


def _columns(schema: Schema) -> list[dict[str, str]]:
    return [{"name": each.name, "type": sql_name(each.type)} for each in schema.fields]


def _stream(stream: Stream) -> dict[str, Any]:
    return {
        **_declared("stream", stream),
        "event_time": None if stream.time is None else stream.schema[stream.time].name,
        "delay_seconds": None if stream.time is None else stream.delay / 1e6,
    }


def _table(table: Table) -> dict[str, Any]:
    return {**_declared("table", table), "event_time": None, "delay_seconds": None}


def _declared(kind: str, what: Stream | Table) -> dict[str, Any]:
    """What streams and tables have in common."""
    return {
        "name": what.name,
        "kind": kind,
        "format": what.source,
        "columns": _columns(what.schema),
        "options": masked(what.options),
    }


_FIGURES = ("published", "latency", "queue_rows", "waiting_bytes", "state_bytes", "late", "spec", "shed_share")


def _query(query: Query, figures: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    return {
        "name": query.name,
        "class": query.cls.name,
        "priority": query.cls.priority,
        "state": figures.get("state", "stopped"),
        "error": figures.get("error"),
        "mode": query.mode,
        "sql": secrets.masked(query.sql),
        "columns": _columns(query.schema),
        "sinks": [{"format": sink.format, "options": masked(sink.options)} for sink in query.sinks],
        **{key: figures[key] for key in _FIGURES if key in figures},
    }
