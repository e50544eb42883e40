"""Whether the columns of a sink's option `key` identify the rows of a query that updates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headgate.graph.operators import Operator, Project, Select
from headgate.graph.queries import Query


def key_problem(query: Query, key: Sequence[str]) -> str | None:
    """Why rows of different groups would replace each other by this key; None if they would not.

    A key must use every column that identifies a row. Whether an expression of such a column (`upper(k)`) still tells
    all values apart is not examined.
    """
    if query.mode != "update":
        return None
    wanted = {name.lower() for name in key}
    places = [place for place, name in enumerate(query.schema.names) if name.lower() in wanted]
    used = frozenset[tuple[int, int]]().union(*(_sources(query.plan, place) for place in places))
    for place in range(query.visible, len(query.plan.schema) - 1):
        if _sources(query.plan, place) <= used:
            continue
        shown = [
            name
            for number, name in enumerate(query.schema.names)
            if _sources(query.plan, number) == _sources(query.plan, place)
        ]
        add = f"add {shown[0]} to the key" if shown else "select every column of GROUP BY and name it in the key"
        return f"key {', '.join(key)} does not identify the rows: other groups would replace them; {add}"
    return None


def mentioned(sql: str, query: Query) -> list[str]:
    """The columns of a query that Spark SQL names."""
    words = {word.lower() for word in re.findall(r"\w+", re.sub(r"'(?:\\.|[^'\\])*'", "", sql))}
    return [name for name in query.schema.names if name.lower() in words]


def _sources(node: Operator, place: int) -> frozenset[tuple[int, int]]:
    """The columns, below all projections, from which a column is computed: each by its operator and position."""
    if isinstance(node, Select):
        return _sources(node.input, place)
    if isinstance(node, Project):
        found = frozenset[tuple[int, int]]()
        for column in node.exprs[place].columns:
            found |= _sources(node.input, column)
        return found
    return frozenset([(id(node), place)])
