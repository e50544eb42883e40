"""The shared graph: the operators of all queries, each once, however many queries need it."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query


class SharedGraph:
    """Holds the queries and the operators they need. Equal operators are one node with one number.

    Not thread-safe; one owner changes it. Numbers are never used twice.
    """

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}
        self._numbers: dict[Operator, int] = {}
        self._nodes: dict[int, Operator] = {}
        self._users: dict[int, set[str]] = {}
        self._next = 0

    def add(self, query: Query) -> list[int]:
        """Adds a query; returns the numbers of the operators that are new, inputs first."""
        if query.name in self._queries:
            raise ValueError(f"query {query.name} is in the graph already; remove it first")
        self._queries[query.name] = query
        new: list[int] = []
        for node in query.plan.walk():
            number = self._numbers.get(node)
            if number is None:
                number = self._next
                self._next += 1
                self._numbers[node] = number
                self._nodes[number] = node
                self._users[number] = set()
                new.append(number)
            self._users[number].add(query.name)
        return new

    def replace(self, query: Query) -> None:
        """Puts a query in the place of one with the same name and plan; no operator changes."""
        if self._queries[query.name].plan != query.plan:
            raise ValueError(f"query {query.name} has another plan; remove it and add it again")
        self._queries[query.name] = query

    def remove(self, name: str) -> list[int]:
        """Removes a query; returns the numbers of the operators that no query needs any more, consumers first."""
        if self._queries.pop(name, None) is None:
            raise KeyError(name)
        gone: list[int] = []
        for number in sorted(self._users, reverse=True):
            users = self._users[number]
            users.discard(name)
            if not users:
                gone.append(number)
        for number in gone:
            del self._users[number]
            del self._numbers[self._nodes.pop(number)]
        return gone

    @property
    def queries(self) -> dict[str, Query]:
        return dict(self._queries)

    @property
    def operators(self) -> dict[int, Operator]:
        """Every operator by its number. Inputs have smaller numbers than their consumers."""
        return dict(self._nodes)

    def number(self, node: Operator) -> int:
        return self._numbers[node]

    def node(self, number: int) -> Operator:
        return self._nodes[number]

    def inputs(self, number: int) -> tuple[int, ...]:
        """The numbers of an operator's inputs, by port."""
        return tuple(self._numbers[i] for i in self._nodes[number].inputs)

    def consumers(self, number: int) -> list[tuple[int, int]]:
        """The readers of an operator's output: (consumer, port)."""
        return [
            (consumer, port)
            for consumer in self._nodes
            for port, producer in enumerate(self.inputs(consumer))
            if producer == number
        ]

    def users(self, number: int) -> frozenset[str]:
        """The names of the queries that need an operator."""
        return frozenset(self._users[number])

    def outputs(self, number: int) -> list[Query]:
        """The queries whose results are this operator's output."""
        return [q for q in self._queries.values() if self._numbers[q.plan] == number]

    def sources(self) -> Iterator[tuple[int, Source]]:
        for number, node in self._nodes.items():
            if isinstance(node, Source):
                yield number, node
