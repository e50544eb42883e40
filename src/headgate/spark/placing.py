"""Decides where queries run: which are split by which keys, and which replica has which of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from headgate.graph.expressions import Expr
from headgate.graph.operators import Operator, Source
from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.graph.types import BOOLEAN
from headgate.spark.placement import SPREAD, Placement, Route, streams_of
from headgate.spark.splitting import KeyPart, Splitting, splitting

Keys = tuple[Expr, ...]

_NOTHING = 1e-9
"""Minimum cost of a query, so that queries that only pass rows on are spread too."""
_MOST_KEYS = 60
"""At most this many keys of a stream split queries; others run whole."""
_SETS = 32
"""At most this many different keys of a stream are searched for keys that several queries have in common."""


def place(
    queries: Sequence[Query],
    replicas: int,
    costs: Mapping[str, float] | None = None,
    kept: Mapping[str, Mapping[str, Route]] | None = None,
) -> Placement:
    """The placement of queries on a number of replicas.

    `costs`: measured seconds of work per second, by query; the cost of a shared operator is divided among its queries.
    Queries without a measured cost have the default cost of their operators, in proportion to those that are measured.
    `kept`: the routes of queries that stay where they are.

    Each stream has a main key, the one that carries the most cost; queries that can be split by it are. Other queries
    that can be split are split by their own keys if they cost more than half of a replica's share; else they run whole.
    Queries without state take rows where the main key puts them; if a stream has no main key, its rows are spread
    evenly if these queries cost that much.
    """
    if replicas == 1:
        return Placement.single(tuple(queries))
    known = _known_costs(queries, costs)
    heavy = _heavy(known, replicas)
    ways = {query.name: splitting(query.plan) for query in queries}
    mains = _main_keys(ways, known)
    routes: dict[str, Mapping[str, Route]] = {}
    keyed = _KeyedRoutes()
    for present in (kept or {}).values():
        keyed.take(present)
    for name, way in ways.items():
        if way is not None and way.groups:
            found = _split(way, mains, known[name] > heavy)
            if found is not None and keyed.take(found):
                routes[name] = found
    used = {stream for found in routes.values() for stream, route in found.items() if route.kind == "key"}
    mains = {stream: keys for stream, keys in mains.items() if stream in used}
    stateless = {name: way for name, way in ways.items() if way is not None and not way.groups and way.free}
    light = {name for name in stateless if not mains.keys() & set(stateless[name].free)}
    if sum(known[name] for name in light) <= heavy:
        stateless = {name: way for name, way in stateless.items() if name not in light}
    for name, way in stateless.items():
        routes[name] = {stream: _free(stream, mains) for stream in way.free}
    stay = Placement(replicas, {query.name: kept[query.name] for query in queries if kept and query.name in kept})
    settled = routes.keys() | stay.routes.keys()
    whole = {name: home for name in stay.routes if (home := stay.replica_of(name)) is not None}
    rest = [query for query in queries if query.name in whole or query.name not in settled]
    homes = _homes(rest, replicas, known, whole)
    for query in rest:
        routes[query.name] = dict.fromkeys(streams_of(query.plan), Route.to(homes[query.name]))
    routes |= stay.routes
    return Placement(replicas, {query.name: routes[query.name] for query in queries})


def _known_costs(queries: Sequence[Query], costs: Mapping[str, float] | None) -> dict[str, float]:
    given = costs or {}
    estimated = estimated_costs(queries)
    both = [name for name in estimated if given.get(name, 0.0) > 0]
    # Estimates are for one row of each stream, measured costs for all rows of a second.
    scale = sum(given[name] for name in both) / (sum(estimated[name] for name in both) or 1.0) if both else 1.0
    return {name: max(given.get(name, cost * (scale or 1.0)), _NOTHING) for name, cost in estimated.items()}


def _heavy(costs: Mapping[str, float], replicas: int) -> float:
    """The cost above which it pays to split a query: half of a replica's share."""
    return sum(costs.values()) / (2 * replicas)


def worth_splitting(
    queries: Sequence[Query], replicas: int, costs: Mapping[str, float] | None = None
) -> frozenset[str]:
    """The queries that it pays to split by keys of their own. `costs` are those of the parts of queries (`place`)."""
    whole: dict[str, float] = {}
    for name, cost in (costs or {}).items():
        query = name.partition(INTERNAL)[0]
        whole[query] = whole.get(query, 0.0) + cost
    known = _known_costs(queries, whole)
    least = _heavy(known, replicas)
    return frozenset(name for name, cost in known.items() if cost > least)


def estimated_costs(queries: Iterable[Query]) -> dict[str, float]:
    """The cost of each query by the defaults of its operators, for one row of each stream; the cost of a shared
    operator is divided among its queries."""
    users: dict[Operator, int] = {}
    plans = {query.name: list(query.plan.walk()) for query in queries}
    for nodes in plans.values():
        for node in nodes:
            users[node] = users.get(node, 0) + 1
    found: dict[str, float] = {}
    for name, nodes in plans.items():
        rows: dict[Operator, float] = {}
        total = 0.0
        for node in nodes:
            taken = sum(rows[each] for each in node.inputs) if node.inputs else 1.0
            rows[node] = taken * (node.selectivity if node.inputs else 1.0)
            total += taken * node.cost / users[node] if node.inputs else 0.0
        found[name] = total
    return found


# Keys -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """The streams of a query that meet, the parts of their key, and the cost of the query."""

    parts: tuple[KeyPart, ...]
    cost: float

    def on(self, stream: str) -> Keys:
        """All parts of the key, over one stream."""
        return tuple(part[stream] for part in self.parts)

    def chosen(self, stream: str, keys: Keys) -> list[KeyPart] | None:
        """The parts that are these keys on a stream; None if one is missing."""
        found = [next((part for part in self.parts if part[stream] == key), None) for key in keys]
        parts = [part for part in found if part is not None]
        return parts if len(parts) == len(found) else None

    def agreed(self, mains: Mapping[str, Keys]) -> list[KeyPart] | None:
        """The parts that are the main keys of all streams that have one; None if the streams disagree."""
        found: list[KeyPart] | None = None
        for stream in self.parts[0]:
            if stream in mains:
                parts = self.chosen(stream, mains[stream])
                if parts is None or (found is not None and parts != found):
                    return None
                found = parts
        return list(self.parts) if found is None else found


def _main_keys(ways: Mapping[str, Splitting | None], costs: Mapping[str, float]) -> dict[str, Keys]:
    """The key of each stream that carries most cost. Streams that meet in joins have keys that agree: the streams with
    the most cost choose first."""
    groups = [
        _Group(parts, costs[name]) for name, way in ways.items() if way is not None for parts in way.groups if parts
    ]
    weights: dict[str, float] = {}
    for group in groups:
        for stream in group.parts[0]:
            weights[stream] = weights.get(stream, 0.0) + group.cost
    mains: dict[str, Keys] = {}
    for stream in sorted(weights, key=lambda each: (-weights[each], each)):
        mine = [(group, group.agreed(mains)) for group in groups if stream in group.parts[0]]
        able = [(group, parts) for group, parts in mine if parts is not None]
        scores: dict[Keys, float] = {}
        for keys in _candidates([tuple(part[stream] for part in parts) for _, parts in able]):
            scores[keys] = sum(group.cost for group, parts in able if _serves(keys, group, parts, stream, mains))
        if scores:
            mains[stream] = max(scores, key=lambda keys: (scores[keys], len(keys), [key.text for key in keys]))
    return mains


def _serves(keys: Keys, group: _Group, parts: Sequence[KeyPart], stream: str, mains: Mapping[str, Keys]) -> bool:
    """Whether a group can be split by these keys of a stream; main keys of its other streams leave it no choice."""
    own = tuple(part[stream] for part in parts)
    return own == keys if mains.keys() & group.parts[0].keys() else set(keys) <= set(own)


def _candidates(found: Sequence[Keys]) -> list[Keys]:
    """Keys that may serve several queries: each given key, its parts, and the parts that two keys have in common."""
    different = list(dict.fromkeys(found))
    wanted = dict.fromkeys(different)
    wanted |= dict.fromkeys((key,) for keys in different for key in keys)
    for first, second in combinations(different[:_SETS], 2):
        wanted[tuple(key for key in first if key in second)] = None
    return [keys for keys in wanted if any(key.type != BOOLEAN for key in keys)]


def _split(way: Splitting, mains: Mapping[str, Keys], heavy: bool) -> dict[str, Route] | None:
    """The routes of a query that is split: by the main keys of its streams, or by its own if it is heavy enough."""
    routes: dict[str, Route] = {}
    for parts in way.groups:
        streams = list(parts[0])
        agreed = _Group(parts, 0.0).agreed(mains) if all(stream in mains for stream in streams) else None
        if agreed is None and not heavy:
            return None
        for stream in streams:
            routes[stream] = Route.by(*(part[stream] for part in (agreed or parts)))
    routes |= {stream: _free(stream, mains) for stream in way.free}
    return routes


class _KeyedRoutes:
    """The routes by key of each stream: not more than the mask of a row has bits (`routing.py`)."""

    def __init__(self) -> None:
        self._found: dict[str, set[Route]] = {}

    def take(self, routes: Mapping[str, Route]) -> bool:
        """Adds the routes of a query, if there is room for them."""
        keyed = {stream: route for stream, route in routes.items() if route.kind == "key"}
        if any(len(self._found.get(stream, set()) | {route}) > _MOST_KEYS for stream, route in keyed.items()):
            return False
        for stream, route in keyed.items():
            self._found.setdefault(stream, set()).add(route)
        return True


def _free(stream: str, mains: Mapping[str, Keys]) -> Route:
    """The route of rows that may go anywhere: by the main key, if any, so that they are sent once and share work."""
    return Route.by(*mains[stream]) if stream in mains else SPREAD


# Whole queries --------------------------------------------------------------------------------------------


def _homes(
    queries: Sequence[Query], replicas: int, costs: Mapping[str, float], kept: Mapping[str, int]
) -> dict[str, int]:
    """The replica of each query that runs whole: queries that share operators beyond the source stay together, and the
    most expensive groups are placed first, each on the replica with the least cost so far (LPT; Graham, 1969). Queries
    that are `kept` are there already."""
    load = [0.0] * replicas
    homes = dict(kept)
    for name, home in kept.items():
        load[home] += costs[name]
    for group in sorted(_sharing(queries), key=lambda names: (-sum(costs[name] for name in names), names)):
        new = [name for name in group if name not in kept]
        known = [kept[name] for name in group if name in kept]
        home = known[0] if known else min(range(replicas), key=lambda replica: (load[replica], replica))
        load[home] += sum(costs[name] for name in new)
        homes.update(dict.fromkeys(new, home))
    return homes


def _sharing(queries: Sequence[Query]) -> list[list[str]]:
    """The queries in groups that share operators."""
    leader: dict[str, str] = {query.name: query.name for query in queries}

    def lead(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    first: dict[Operator, str] = {}
    for query in queries:
        for node in query.plan.walk():
            if not isinstance(node, Source):
                other = first.setdefault(node, query.name)
                leader[lead(query.name)] = lead(other)
    groups: dict[str, list[str]] = {}
    for query in queries:
        groups.setdefault(lead(query.name), []).append(query.name)
    return [sorted(group) for group in groups.values()]
