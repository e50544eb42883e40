"""The operations of the API, as data: the routes and the OpenAPI document are made of this list.

The name of an operation is that of its handler in `Api`.
"""

from __future__ import annotations

from headgate.server.openapi import ANY, TEXT, Operation, limit_parameter, many, obj, ref

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

_QUERY = "/api/queries/{name}"
_OBJECT = {JSON: obj({})}
_NAMED = {JSON: obj({"name": TEXT})}


def operations(rows: int) -> list[Operation]:
    """All operations; `rows`: the most rows of one answer."""
    limit = (limit_parameter(rows),)
    return [
        Operation("GET", "/api/status", "status", "What the server does", {JSON: ref("Status")}),
        Operation(
            "POST",
            "/api/statements",
            "execute",
            "Executes statements: all or none",
            {JSON: ref("Done")},
            body="Statement",
            refuses=(409, 429, 503),
        ),
        Operation(
            "POST",
            "/api/check",
            "check",
            "What the statements would do; nothing is registered",
            {JSON: ref("Done")},
            body="Statement",
            refuses=(429, 503),
        ),
        Operation(
            "GET",
            "/api/streams",
            "streams",
            "The streams and static tables",
            {JSON: obj({"streams": many(ref("Stream"))})},
            refuses=(503,),
        ),
        Operation(
            "GET",
            "/api/queries",
            "queries",
            "The queries",
            {JSON: obj({"queries": many(ref("Query"))})},
            refuses=(503,),
        ),
        Operation("GET", _QUERY, "query", "One query", {JSON: ref("Query")}, refuses=(503,)),
        Operation("DELETE", _QUERY, "drop", "Stops a query and drops its state", _NAMED, refuses=(409, 503)),
        Operation("POST", f"{_QUERY}/pause", "pause", "Pauses a query; rows wait", _NAMED, refuses=(409, 503)),
        Operation("POST", f"{_QUERY}/resume", "resume", "Ends a pause", _NAMED, refuses=(409, 503)),
        Operation("POST", f"{_QUERY}/retry", "retry", "Runs a failed query again", _NAMED, refuses=(409, 503)),
        Operation(
            "GET",
            f"{_QUERY}/results",
            "results",
            "The newest rows of a query, oldest first; as Arrow if the request accepts it",
            {JSON: ref("Rows"), ARROW: {"type": "string", "format": "binary"}},
            refuses=(406, 503),
            parameters=limit,
        ),
        Operation(
            "GET",
            f"{_QUERY}/results/events",
            "follow",
            "The results of each epoch from now on, as server-sent events",
            {EVENTS: TEXT},
            refuses=(429, 503),
        ),
        Operation(
            "GET",
            "/api/classes",
            "classes",
            "The classes",
            {JSON: obj({"classes": many(ref("Class"))})},
            refuses=(503,),
        ),
        Operation("GET", "/api/graph", "graph", "The query graph", {JSON: ref("Graph")}, refuses=(503,)),
        Operation("GET", "/api/metrics", "metrics", "All figures", _OBJECT, refuses=(503,)),
        Operation(
            "GET",
            "/api/metrics/events",
            "follow_metrics",
            "Samples, queries, graph and events from now on, as server-sent events",
            {EVENTS: TEXT},
            refuses=(429,),
        ),
        Operation(
            "GET",
            "/api/decisions",
            "decisions",
            "What the engine decided by itself and why, oldest first",
            {JSON: obj({"decisions": many(obj({}))})},
            refuses=(503,),
            parameters=limit,
        ),
        Operation("GET", "/api/history", "history", "Samples and events so far", _OBJECT),
        Operation(
            "GET",
            "/api/dead_letters",
            "dead_letters",
            "Malformed rows: how many, and the newest",
            {JSON: ref("Letters")},
            refuses=(503,),
            parameters=limit,
        ),
        Operation("GET", "/api/policy", "policies", "The policy, and all others", {JSON: ref("Policies")}),
        Operation(
            "PUT",
            "/api/policy",
            "set_policy",
            "Changes the policy",
            {JSON: ref("Policy")},
            body="Policy",
            refuses=(409, 503),
        ),
        Operation("GET", "/api/objectives", "objectives", "The objectives", {JSON: ref("Objectives")}),
        Operation(
            "PUT",
            "/api/objectives",
            "set_objectives",
            "Changes the objectives; an empty object: the policy's own",
            {JSON: ref("Objectives")},
            body="Objectives",
            refuses=(409, 503),
        ),
        Operation("GET", "/metrics", "prometheus", "Metrics for Prometheus", {"text/plain": TEXT}, refuses=(503,)),
        Operation("GET", "/healthz", "health", "Whether the engine runs", {JSON: ref("Status")}, refuses=(503,)),
        Operation("GET", "/openapi.json", "document", "This document", {JSON: ANY}),
    ]
