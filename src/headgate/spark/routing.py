"""The routes of a placement as Spark SQL: the replicas of every packed row, computed by Catalyst beside the row.

A row goes once to each replica that needs it. Where a stream has several routes, the mask of a row says which of them
lead to this replica, by their bits (`placement.bits_of`).
"""

from __future__ import annotations

from typing import Any

from headgate.graph.expressions import Column, Expr, Foreign
from headgate.graph.types import sql_name
from headgate.spark.packing import FLAW, TAG, Packing
from headgate.spark.placement import Placement, Route, bits_of
from headgate.spark.task import REPLICA
from headgate.sql.foreign import NotSpark, spark_text

MASK = "mask"
"""The last column of packed rows, only where a stream has several routes to replicas."""
_ANY = "any_replica"
_OWNER = "owner_"
_INT_BITS = 31


def routed(frame: Any, packing: Packing, placement: Placement) -> Any:
    """Packed and computed rows (`Packing.complete`) with the column `REPLICA`, and `MASK` behind it if a stream has
    several routes. Malformed rows go to one replica each. Rows of streams without routes go to replica 0."""
    routes = {stream: placement.routes_of(stream) for stream in packing.streams}
    names = [f"`{name}`" for name in frame.columns]
    owners = _owners(routes, packing, placement)
    spread = any(route.kind == "spread" for found in routes.values() for route in found)
    several = any(len(found) > 1 for found in routes.values())
    if spread or (several and packing.flawed):
        # A separate column, since a generator cannot use random numbers. A repeated task draws the same ones.
        owners.append(f"CAST(floor(rand(1) * {placement.replicas}) AS INT) AS {_ANY}")
    if owners:
        frame = frame.selectExpr(*names, *owners)
    if not several:
        places = [_destination(found[0], 0) if found else "0" for found in routes.values()]
        return frame.selectExpr(*names, f"{_by_stream(places)} AS {REPLICA}")
    kind = "BIGINT" if max(max(bits_of(found), default=0) for found in routes.values()) >= _INT_BITS else "INT"
    arrays = _by_stream([_destinations(found, kind) for found in routes.values()])
    if packing.flawed:
        arrays = f"CASE WHEN {FLAW} IS NOT NULL THEN array({_entry(_ANY, '0', kind)}) ELSE {arrays} END"
    frame = frame.selectExpr(*names, f"inline({arrays}) AS ({REPLICA}, {MASK})")
    return frame.where(f"{REPLICA} IS NOT NULL")


def owner(keys: list[str], placement: Placement) -> str:
    """Spark SQL for the replica that owns keys, themselves Spark SQL. The array of owners is a constant for Catalyst:
    an element of it takes the same time, however many there are.

    >>> owner(["a", "b"], Placement(4))
    'CAST(pmod(xxhash64(a, b), 4) AS INT)'
    >>> owner(["a"], Placement(2, {}, (1, 1, 0)))
    'array(1, 1, 0)[CAST(pmod(xxhash64(a), 3) AS INT)]'
    """
    found = f"xxhash64({', '.join(keys)})"
    if not placement.owners:
        return f"CAST(pmod({found}, {placement.replicas}) AS INT)"
    return f"array({', '.join(map(str, placement.owners))})[CAST(pmod({found}, {len(placement.owners)}) AS INT)]"


def _owners(routes: dict[str, tuple[Route, ...]], packing: Packing, placement: Placement) -> list[str]:
    """Columns with the owners by the first, second … key of each row's stream."""
    found = []
    for place in range(max((sum(route.kind == "key" for route in each) for each in routes.values()), default=0)):
        cases = [
            owner([_key(key, packing, stream) for key in each[place].keys], placement)
            if place < len(each) and each[place].kind == "key"
            else "NULL"
            for stream, each in routes.items()
        ]
        found.append(f"{_by_stream(cases)} AS {_OWNER}{place}")
    return found


def _by_stream(values: list[str]) -> str:
    """One value for the rows of each stream."""
    if all(value == values[0] for value in values):
        return values[0]
    return f"CASE {TAG}{''.join(f' WHEN {tag} THEN {value}' for tag, value in enumerate(values))} END"


def _key(expr: Expr, packing: Packing, stream: str) -> str:
    """A key over the slots of a packed row. What Catalyst computes has slots of its own."""
    names = packing.names(stream)

    def slot(column: Column) -> str:
        name = computed[column.index - len(names)] if column.index >= len(names) else names[column.index]
        found = packing.slot(stream, name) or packing.computed_slot(stream, name)
        if found is None:
            raise NotSpark(f"column {name} of stream {stream}, which is not carried")
        return found

    computed = [part.key for part in expr.walk() if isinstance(part, Foreign)]
    text = spark_text(
        expr.rewrite(
            lambda part: Column(part.type, len(names) + computed.index(part.key)) if isinstance(part, Foreign) else None
        ),
        slot,
    )
    return text if isinstance(expr, (Column, Foreign)) else f"CAST({text} AS {sql_name(expr.type)})"


def _destination(route: Route, place: int) -> str:
    """The replica to which a route takes a row."""
    if route.kind == "one":
        return str(route.replica)
    return _ANY if route.kind == "spread" else f"{_OWNER}{place}"


def _destinations(routes: tuple[Route, ...], kind: str) -> str:
    """An array of replica and mask: a replica to which several routes lead stands at the first of them, the others are
    null."""
    places = [_destination(route, place) for place, route in enumerate(routes)]
    bits = bits_of(routes)
    several = sum(route.kind != "one" for route in routes)
    singles = ", ".join(places[several:])
    entries = []
    for i, place in enumerate(places):
        before = [f"{places[j]} = {place}" for j in range(min(i, several))]
        others = [f"IF({places[j]} = {place}, {1 << bits[j]}, 0)" for j in range(i + 1, several)]
        if i < several and singles:
            others.append(f"IF({place} IN ({singles}), {1 << several}, 0)")
        entry = _entry(place, " + ".join([str(1 << bits[i]), *others]), kind)
        entries.append(f"IF({' OR '.join(before)}, NULL, {entry})" if before else entry)
    return f"array({', '.join(entries or [_entry('0', '0', kind)])})"


def _entry(place: str, mask: str, kind: str) -> str:
    return f"named_struct('{REPLICA}', {place}, '{MASK}', CAST({mask} AS {kind}))"
