"""The query graph as the page draws it: positions of boxes, edges, and the live figures of operators and units."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from headgate.explanation.explained import Explanation
from headgate.explanation.layout import layout
from headgate.graph.operators import Source

WIDTH, HEIGHT = 172.0, 46.0
"""Size of a box in the units of the drawing."""


def drawing(found: Explanation) -> dict[str, Any]:
    """The graph: streams, operators and queries as boxes from left to right, and the edges between them."""
    nodes: dict[Hashable, dict[str, Any]] = {}
    for step in found.operators:
        source = step.kind == Source.__name__.lower()
        nodes[step.number] = {
            "id": step.number,
            "kind": "stream" if source else "operator",
            "title": step.kind,
            "detail": step.detail,
            "queries": list(step.queries),
            "stateful": step.stateful,
        }
    edges: list[tuple[Hashable, Hashable]] = [
        (number, step.number) for step in found.operators for number in dict.fromkeys(step.inputs)
    ]
    for query in found.queries:
        place = f"query:{query.name}"
        nodes[place] = {
            "id": place,
            "kind": "query",
            "title": query.name,
            "detail": query.sql,
            "queries": [query.name],
            "class": query.cls.name,
            "stateful": False,
        }
        edges.append((found.outputs[query.name], place))
    if not nodes:
        return {"nodes": [], "edges": [], "width": 0, "height": 0, "units": []}
    last = frozenset(name for name, node in nodes.items() if node["kind"] == "query")
    places = layout(dict.fromkeys(nodes, (WIDTH, HEIGHT)), edges, last)
    for name, node in nodes.items():
        box = places.boxes[name]
        node.update(x=box.x, y=box.y, width=box.width, height=box.height)
    return {
        "nodes": list(nodes.values()),
        "edges": [
            {"from": one, "to": other, "bends": [list(point) for point in places.bends[one, other]]}
            for one, other in edges
        ],
        "width": places.width,
        "height": places.height,
        "units": [{"operators": list(unit.operators), "class": unit.cls} for unit in found.units],
    }


def live_figures(metrics: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The live figures: of each operator by its number in the drawing, and of the units of the present cut.

    `numbers` has the number of each operator by its key. With several replicas, parts of operators run under other
    keys; these have no figures here.
    """
    operators: dict[str, Any] = {}
    by_name: dict[str, int] = {}
    for figures in metrics.get("operators", ()):
        number = numbers.get(figures["key"])
        if number is None:
            continue
        by_name[figures["name"]] = number
        operators[str(number)] = {
            key: figures[key]
            for key in ("rows_in", "rows_out", "cost", "selectivity", "rate", "queue_rows", "queue_bytes", "state_rows")
        }
    units = [
        {
            "operators": [by_name[name] for name in unit["operators"] if name in by_name],
            "class": unit["class"],
            "queue_rows": unit["queue_rows"],
            "queue_bytes": unit["queue_bytes"],
            "grants": unit["grants"],
            "seconds": unit["seconds"],
        }
        for unit in metrics.get("units", ())
    ]
    return {"operators": operators, "units": [unit for unit in units if unit["operators"]]}
