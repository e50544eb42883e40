"""The OpenAPI document: generated from the same table as the routes, so that it describes exactly what exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
ANY: Schema = {}


def obj(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, closed: bool = False) -> Schema:
    """An object with these members; `closed`: and no others."""
    found: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_PLACE = {"type": "integer", "minimum": 1}
_COLUMN = obj({"name": TEXT, "type": TEXT})
_DONE = obj({"done": TEXT, "kind": TEXT, "name": TEXT})
_QUERY_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}

SCHEMAS: Mapping[str, Schema] = {
    "Refusal": obj({"message": TEXT}, {"line": _PLACE, "column": _PLACE}),
    "Statement": obj({"sql": {"type": "string", "minLength": 1}}, closed=True),
    "Done": obj({"statements": many(_DONE)}),
    "Policy": obj({"policy": {"type": "string", "minLength": 1}}, closed=True),
    "Policies": obj({"policy": TEXT, "policies": many(obj({"name": TEXT, "about": TEXT}))}),
    "Objectives": obj({"objectives": {"type": "object", "additionalProperties": NUMBER}}, closed=True),
    "Stream": obj(
        {
            "name": TEXT,
            "kind": {"enum": ["stream", "table"]},
            "format": TEXT,
            "columns": many(_COLUMN),
            "event_time": maybe(TEXT),
            "delay_seconds": maybe(NUMBER),
            "options": {"type": "object", "additionalProperties": TEXT},
        }
    ),
    "Query": obj(
        {
            "name": TEXT,
            "class": TEXT,
            "priority": NUMBER,
            "state": TEXT,
            "error": maybe(TEXT),
            "mode": {"enum": ["append", "update"]},
            "sql": TEXT,
            "columns": many(_COLUMN),
            "sinks": many(obj({"format": TEXT, "options": {"type": "object"}})),
        }
    ),
    "Class": obj({"name": TEXT, "priority": NUMBER, "queries": COUNT}),
    "Rows": obj({"columns": many(_COLUMN), "rows": many({"type": "object"})}),
    "Graph": obj({"nodes": many({"type": "object"}), "edges": many({"type": "object"}), "live": {"type": "object"}}),
    "Status": obj({"state": {"enum": ["starting", "running", "failed", "stopped"]}, "error": TEXT, "policy": TEXT}),
    "Letters": obj({"counts": {"type": "object"}, "rows": many(obj({"stream": TEXT, "reason": TEXT, "row": TEXT}))}),
}


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    - `answers`: the schema of each media type that it may answer with
    - `body`: the name of the schema of its body, if it has one
    - `refuses`: the statuses of its refusals, besides those that every operation has
    """

    method: str
    path: str
    name: str
    summary: str
    answers: Mapping[str, Schema]
    body: str | None = None
    refuses: tuple[int, ...] = ()
    parameters: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


REASONS = {
    400: "The request is wrong; the message says what to write instead, line and column where it is wrong.",
    401: "A token is needed.",
    403: "The request comes from a page of another site.",
    404: "There is no such query.",
    405: "The path does not have this method.",
    406: "The answer cannot be made in a type that the request accepts.",
    409: "The query or the engine is not in a state for this.",
    413: "The request is too large.",
    415: "The body is not application/json.",
    421: "The server is called by a name that it does not answer to.",
    429: "A limit of the server is reached.",
    503: "The engine is starting, or has stopped.",
}
_EVERYWHERE = (400, 401, 403, 413, 421)


def limit_parameter(most: int) -> Mapping[str, Any]:
    return {
        "name": "limit",
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": most, "default": min(100, most)},
    }


def path_parameters(path: str) -> list[Mapping[str, Any]]:
    return [_QUERY_NAME] if "{name}" in path else []


def document(operations: Iterable[Operation], token: bool) -> dict[str, Any]:
    """The document of these operations; `token`: the server needs one."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": _version(), "summary": "Continuous SQL queries in one Spark job."},
        "paths": paths,
        "components": {"schemas": dict(SCHEMAS)},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _operation(each: Operation) -> dict[str, Any]:
    own = {404} if "{name}" in each.path else set()
    refusals = sorted({*_EVERYWHERE, *each.refuses, *own, *({415} if each.body is not None else ())})
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [*path_parameters(each.path), *each.parameters],
        "responses": {
            "200": {
                "description": each.summary,
                "content": {media: {"schema": schema} for media, schema in each.answers.items()},
            },
            **{
                str(status): {
                    "description": REASONS[status],
                    "content": {"application/json": {"schema": ref("Refusal")}},
                }
                for status in refusals
            },
        },
    }
    if each.body is not None:
        content = {"application/json": {"schema": ref(each.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _version() -> str:
    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"
