"""The part of a plan that one replica runs: its queries, and the names under which rows enter its network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.operators import Send
from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate
from headgate.runtime.dataflow import plan_key
from headgate.runtime.limits import Failure
from headgate.spark.key_slots import owners
from headgate.spark.placement import SPREAD, Placement, Route, bits_of
from headgate.spark.plan import Plan


class LocalPlan:
    """A plan as one replica sees it.

    The sources of its `queries` have local names: a stream has one for each of its routes to this replica
    (`placement.py`). Where there is one replica, everything is as in the plan.
    """

    def __init__(self, plan: Plan, replica: int) -> None:
        self._declared = {query.name: query for query in plan.queries}
        parts = plan.run_queries
        self.queries = {query.name: query for query in parts}
        """The queries, and fragments of queries, that run here, by name."""
        self.fragments = frozenset(query.name for query in parts if isinstance(query.plan, Send))
        """The fragments of the whole plan; their results go to other replicas."""
        self.shared = plan.placement is not None and plan.replicas > 1
        """Whether there are other replicas."""
        self._routes: dict[str, list[tuple[int, str]]] = {}
        self.by_key: dict[str, Route] = {}
        """The routes by key, by the local names of their streams."""
        self.key_slots = 0 if plan.placement is None else len(plan.placement.table)
        """The number of key slots."""
        self._replica = replica
        placement = plan.placement
        if placement is None or plan.replicas == 1:
            return
        self._placement: Placement = placement
        local = ((query.name, placement.local(query, replica)) for query in parts)
        self.queries = {name: query for name, query in local if query is not None}
        for stream in placement.streams:
            routes = placement.routes_of(stream)
            self._routes[stream] = [
                (1 << bit, route.local(stream))
                for bit, route in zip(bits_of(routes), routes, strict=True)
                if route.kind != "one" or route.replica == replica
            ]
            self.by_key |= {route.local(stream): route for route in routes if route.kind == "key"}

    def parts_of(self, query: str) -> list[str]:
        """A query and its fragments, as far as they run here."""
        return [name for name in self.queries if name == query or self.query_of(name) == query]

    def query_of(self, name: str) -> str:
        """The query that a fragment belongs to; the name itself if it is no fragment."""
        return name.rpartition("/")[0] if name in self.fragments else name

    def received(self, fragment: str, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of a fragment's stream that this replica reads, by local name. All replicas read the same batches;
        rows that may go anywhere go to each in turn."""
        for name in self.local_names(fragment):
            route = self.by_key.get(name)
            if route is not None:
                batch = Batch(rows, Arrival.at(0.0, rows.num_rows))
                places = owners(self._placement, fragment, [evaluate(key, batch) for key in route.keys])
            elif name == SPREAD.local(fragment):
                places = np.arange(rows.num_rows) % self._placement.replicas
            else:
                yield name, rows
                continue
            yield name, rows.filter(pa.array(places == self._replica))

    def separated(
        self, stream: str, rows: pa.RecordBatch, mask: pa.Array | None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of a stream by local name. A row's `mask` has the bits of the routes that brought it (`bits_of`);
        without a mask all rows came by the stream's only route to this replica."""
        if not self.shared:
            yield stream, rows
            return
        routes = self._routes.get(stream, [])
        for bit, name in routes:
            if mask is None:
                yield name, rows
                continue
            brought = pc.not_equal(pc.bit_wise_and(mask, pa.scalar(bit, mask.type)), pa.scalar(0, mask.type))
            if brought.true_count == len(brought):
                yield name, rows
            elif brought.true_count:
                yield name, rows.filter(brought)

    def local_names(self, stream: str) -> tuple[str, ...]:
        """The names under which rows of a stream enter the network."""
        return tuple(name for _, name in self._routes.get(stream, ())) if self.shared else (stream,)

    def by_stream(self, local: Mapping[str, int]) -> dict[str, int]:
        """The highest figure of each stream, from figures by local name."""
        if not self.shared:
            return dict(local)
        found: dict[str, int] = {}
        for stream, routes in self._routes.items():
            known = [local[name] for _, name in routes if name in local]
            if known:
                found[stream] = max(known)
        return found

    def selected(self, local: Mapping[str, tuple[int, int]], read: Iterable[str]) -> dict[str, tuple[int, int]]:
        """`Network.selected` by stream: a stream is read only by selections if that holds for all its local names
        in `read`."""
        if not self.shared:
            return dict(local)
        found: dict[str, tuple[int, int]] = {}
        present = set(read)
        for stream, routes in self._routes.items():
            names = [name for _, name in routes if name in present]
            if names and all(name in local for name in names):
                found[stream] = (max(local[name][0] for name in names), sum(local[name][1] for name in names))
        return found

    def declared(self, failure: Failure) -> Failure:
        """A failure with the key of the plan as it was declared, which all replicas know."""
        name = self.query_of(failure.query)
        query = self._declared.get(name)
        return failure if query is None else replace(failure, query=name, plan=plan_key(query))

    def failure(self, query: str, operator: str, detail: str, error: str, at: float) -> Failure:
        """The failure of a query that failed elsewhere."""
        known = self._declared.get(query)
        return Failure(query, operator, detail, error, at, "" if known is None else plan_key(known))
