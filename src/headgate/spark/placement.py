"""Where queries run: the routes by which the rows of streams reach replicas, and the queries as each replica runs them.

A placement is plain data: `given` makes the same placement again, in the plan of an epoch and in its JSON. Which routes
pay is decided by `place` in `placing.py`; the Catalyst expressions that follow them are written in `routing.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from headgate.graph.expressions import Expr
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query

RouteKind = Literal["key", "spread", "one"]

LEAST_SLOTS, SLOTS_EACH = 256, 32
"""The number of key slots: at least so many, and so many for each replica. Only whole slots can be moved: with 32 for
each replica, loads of equal slots can be divided to a thirty-second, and a few hot keys rarely share one of 256."""


@dataclass(frozen=True)
class Route:
    """How the rows of one stream reach replicas, for all queries that have this route.

    - key: the replica is the owner of the slot of `keys` (`key_slots.py`). `keys` are expressions over the declared
      columns of the stream (and what Catalyst computes for it); the two sides of a join have keys of the same types
    - spread: any replica, each row one (queries without state)
    - one: all rows go to `replica`
    """

    kind: RouteKind
    keys: tuple[Expr, ...] = ()
    replica: int = 0

    @staticmethod
    def to(replica: int) -> Route:
        """All rows go to this replica."""
        return Route("one", (), replica)

    @staticmethod
    def by(*keys: Expr) -> Route:
        """Rows go to the owners of these keys."""
        return Route("key", keys)

    def local(self, stream: str) -> str:
        """The name under which rows that came by this route enter the network.

        >>> from headgate.graph.expressions import Column
        >>> from headgate.graph.types import INT
        >>> Route.to(1).local("s"), SPREAD.local("s"), Route.by(Column(INT, 0)).local("s")
        ('s', 's#*', 's#b0855bd1')
        """
        if self.kind == "one":
            return stream
        return f"{stream}#*" if self.kind == "spread" else f"{stream}#{self._digest}"

    @cached_property
    def _digest(self) -> str:
        text = ", ".join(f"{key.text}:{key.type}" for key in self.keys)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts the routes of a stream: keys, spread, single replicas."""
        return ("key", "spread", "one").index(self.kind), self._digest if self.keys else "", self.replica

    @property
    def given(self) -> tuple[Any, ...]:
        """Plain values from which the same route is made: `Route(*given)`."""
        return self.kind, self.keys, self.replica


SPREAD = Route("spread")


@dataclass(frozen=True)
class Placement:
    """The routes of every query: query → stream → route.

    A query whose routes are all `one` runs whole on that replica; any other runs on all replicas, each of which has the
    rows that its routes bring. No query mixes the two. A query that reads no stream runs on replica 0.

    `owners` has the owner of each key slot, if these are not spread evenly. There is one table for all routes: equal
    keys meet, whatever queries and streams they belong to.
    """

    replicas: int
    routes: Mapping[str, Mapping[str, Route]] = field(default_factory=dict)
    owners: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not all(0 <= owner < self.replicas for owner in self.owners):
            raise ValueError(f"key slots belong to replicas that do not exist: {self.owners}")
        for query, routes in self.routes.items():
            if len({route.replica if route.kind == "one" else None for route in routes.values()}) > 1:
                raise ValueError(f"query {query} has routes to one replica and to others: {routes}")

    @staticmethod
    def single(queries: tuple[Query, ...]) -> Placement:
        """All queries on one replica, with their plans and stream names unchanged."""
        return Placement(1, {query.name: dict.fromkeys(streams_of(query.plan), Route.to(0)) for query in queries})

    @cached_property
    def table(self) -> tuple[int, ...]:
        """The owner of each key slot."""
        return self.owners or even_table(self.replicas)

    def replica_of(self, query: str) -> int | None:
        """The replica on which a query runs whole; None if it runs on all."""
        for route in self.routes[query].values():
            return route.replica if route.kind == "one" else None
        return 0

    def runs_on(self, query: str, replica: int) -> bool:
        """Whether a query runs on a replica."""
        return self.replica_of(query) in (None, replica)

    def local(self, query: Query, replica: int) -> Query | None:
        """A query as a replica runs it: its sources have the local names of their routes. None if it runs elsewhere.

        Queries with the same routes share operators on a replica exactly as they do in the whole graph.
        """
        if not self.runs_on(query.name, replica):
            return None
        routes = self.routes[query.name]
        names = {stream: route.local(stream) for stream, route in routes.items()}
        if all(stream == name for stream, name in names.items()):
            return query
        utilities = tuple((names.get(stream, stream), expr) for stream, expr in query.utilities)
        return replace(query, plan=renamed(query.plan, names), utilities=utilities)

    def routes_of(self, stream: str) -> tuple[Route, ...]:
        """The routes of a stream, each once; `bits_of` are their bits in the mask of a row."""
        return self._routes_of.get(stream, ())

    @cached_property
    def _routes_of(self) -> dict[str, tuple[Route, ...]]:
        found: dict[str, set[Route]] = {}
        for routes in self.routes.values():
            for stream, route in routes.items():
                found.setdefault(stream, set()).add(route)
        return {stream: tuple(sorted(routes, key=lambda route: route.order)) for stream, routes in found.items()}

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that have routes."""
        return tuple(self._routes_of)

    @property
    def given(self) -> tuple[Any, ...]:
        """Values that `graph/as_json.py` writes, from which the same placement is made: `Placement.of(given)`. With an
        even table they are the same as before there were tables."""
        routes = {
            query: {stream: route.given for stream, route in found.items()} for query, found in self.routes.items()
        }
        return (self.replicas, routes, self.owners) if self.owners else (self.replicas, routes)

    @staticmethod
    def of(given: tuple[Any, ...]) -> Placement:
        replicas, routes, *owners = given
        return Placement(
            replicas,
            {query: {stream: Route(*route) for stream, route in found.items()} for query, found in routes.items()},
            *owners,
        )


def even_table(replicas: int) -> tuple[int, ...]:
    """The owners of key slots that are spread evenly.

    >>> table = even_table(3)
    >>> len(table), table[:4]
    (258, (0, 1, 2, 0))
    """
    each = max(SLOTS_EACH, -(-LEAST_SLOTS // replicas))
    return tuple(range(replicas)) * each


def bits_of(routes: Sequence[Route]) -> tuple[int, ...]:
    """The bit of each of a stream's routes (`Placement.routes_of`) in the mask of a row. Those to one replica have the
    last bit in common, since each replica knows at most one of them: there may be more replicas than bits."""
    others = sum(route.kind != "one" for route in routes)
    return tuple(min(place, others) for place in range(len(routes)))


def streams_of(plan: Operator) -> tuple[str, ...]:
    """The streams that a plan reads, each once."""
    return tuple(dict.fromkeys(node.stream for node in plan.walk() if isinstance(node, Source)))


def renamed(plan: Operator, names: Mapping[str, str]) -> Operator:
    """A plan whose sources have other names."""
    changed: dict[Operator, Operator] = {}
    for node in plan.walk():
        if isinstance(node, Source):
            changed[node] = replace(node, stream=names.get(node.stream, node.stream))
        else:
            inputs = tuple(changed[each] for each in node.inputs)
            same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
            changed[node] = node if same else node.with_inputs(inputs)
    return changed[plan]
