"""The operations of the API, as data: the routes and the OpenAPI document are generated from this list.

The name of an operation is that of its handler in `Api`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.server.openapi import ANY, TEXT, Operation, Schema, limit_parameter, many, obj, ref

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

_QUERY = "/api/queries/{name}"
_OBJECT = {JSON: obj({})}
_NAMED = {JSON: obj({"name": TEXT})}
_ROWS = {JSON: ref("Rows"), ARROW: {"type": "string", "format": "binary"}}

Answer = Mapping[str, Schema]


def _one(schema: str) -> Answer:
    """An answer in JSON by the name of its schema."""
    return {JSON: ref(schema)}


def _list(name: str, items: Schema) -> Answer:
    """An answer in JSON that is a list under a name."""
    return {JSON: obj({name: many(items)})}


def _read(path: str, name: str, about: str, answer: Answer, *parameters: Schema) -> Operation:
    """An operation that reads the engine; refused while the engine starts."""
    return Operation("GET", path, name, about, answer, refuses=(503,), parameters=parameters)


def _change(method: str, path: str, name: str, about: str, answer: Answer, body: str | None = None) -> Operation:
    """An operation that changes the engine; refused while the engine starts or if its state does not allow it."""
    return Operation(method, path, name, about, answer, body=body, refuses=(409, 503))


def _statements(path: str, name: str, about: str, *refuses: int) -> Operation:
    """An operation that takes statements; refused if a limit is exceeded."""
    return Operation("POST", path, name, about, _one("Done"), body="Statement", refuses=(*refuses, 429, 503))


def _follow(path: str, name: str, about: str, *refuses: int) -> Operation:
    """An operation that stays open and sends events; refused if too many clients follow."""
    return Operation("GET", path, name, about, {EVENTS: TEXT}, refuses=(429, *refuses))


def operations(rows: int) -> list[Operation]:
    """All operations; `rows`: the most rows of one answer."""
    limit = limit_parameter(rows)
    newest = "The newest rows of a query, oldest first; as Arrow if the request accepts it"
    return [
        Operation("GET", "/api/status", "status", "What the server does", _one("Status")),
        _statements("/api/statements", "execute", "Executes statements: all or none", 409),
        _statements("/api/check", "check", "What the statements would do; nothing is registered"),
        _read("/api/streams", "streams", "The streams and static tables", _list("streams", ref("Stream"))),
        _read("/api/queries", "queries", "The queries", _list("queries", ref("Query"))),
        _read(_QUERY, "query", "One query", _one("Query")),
        _change("DELETE", _QUERY, "drop", "Stops a query and drops its state", _NAMED),
        _change("POST", f"{_QUERY}/pause", "pause", "Pauses a query; rows wait", _NAMED),
        _change("POST", f"{_QUERY}/resume", "resume", "Ends a pause", _NAMED),
        _change("POST", f"{_QUERY}/retry", "retry", "Runs a failed query again", _NAMED),
        Operation("GET", f"{_QUERY}/results", "results", newest, _ROWS, refuses=(406, 503), parameters=(limit,)),
        _follow(
            f"{_QUERY}/results/events", "follow", "The results of each epoch from now on, as server-sent events", 503
        ),
        _read("/api/classes", "classes", "The classes", _list("classes", ref("Class"))),
        _read("/api/graph", "graph", "The query graph", _one("Graph")),
        _read("/api/metrics", "metrics", "All figures", _OBJECT),
        _follow(
            "/api/metrics/events",
            "follow_metrics",
            "Samples, queries, graph and events from now on, as server-sent events",
        ),
        _read(
            "/api/decisions",
            "decisions",
            "What the engine decided by itself and why, oldest first",
            _list("decisions", obj({})),
            limit,
        ),
        Operation("GET", "/api/history", "history", "Samples and events so far", _OBJECT),
        _read("/api/dead_letters", "dead_letters", "Malformed rows: how many, and the newest", _one("Letters"), limit),
        Operation("GET", "/api/policy", "policies", "The policy, and all others", _one("Policies")),
        _change("PUT", "/api/policy", "set_policy", "Changes the policy", _one("Policy"), "Policy"),
        Operation("GET", "/api/objectives", "objectives", "The objectives", _one("Objectives")),
        _change(
            "PUT",
            "/api/objectives",
            "set_objectives",
            "Changes the objectives; an empty object: the policy's own",
            _one("Objectives"),
            "Objectives",
        ),
        Operation("GET", "/metrics", "prometheus", "Metrics for Prometheus", {"text/plain": TEXT}, refuses=(503,)),
        Operation("GET", "/healthz", "health", "Whether the engine runs", _one("Status"), refuses=(503,)),
        Operation("GET", "/openapi.json", "document", "This document", {JSON: ANY}),
    ]
