"""Replicas in one process: networks fed by a router that follows the routes of a placement, as Spark's shuffle does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.operators import Send, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate
from headgate.operators.settings import Settings
from headgate.operators.windows import highest
from headgate.runtime import Network, result_table
from headgate.runtime.limits import Failure
from headgate.runtime.outbox import ResultBatch
from headgate.spark.exchange import Division, divided
from headgate.spark.key_slots import ROWS, owners
from headgate.spark.placement import Placement, Route, streams_of
from headgate.spark.placing import place
from headgate.spark.redistribution import redistributed

Owners = npt.NDArray[np.int64]


class MemoryStore:
    """Parts in memory (the `Store` of a network)."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.RecordBatch]] = {}

    def write(self, key: str, batches: Sequence[pa.RecordBatch]) -> None:
        self._parts[key] = list(batches)

    def read(self, key: str, index: int) -> pa.RecordBatch:
        return self._parts[key][index]

    def discard(self, key: str) -> None:
        self._parts.pop(key, None)


class Replicas:
    """The networks of a placement. Rows come in epochs; watermarks are those of the streams, as the driver has them."""

    def __init__(
        self,
        queries: Sequence[Query],
        placement: Placement,
        settings: Settings | None = None,
        declared: Sequence[Query] | None = None,
        **options: Any,
    ) -> None:
        """`declared`: the queries before they were divided at exchanges."""
        self._declared = declared if declared is not None else list(queries)
        self.placement = placement
        self._settings = settings or Settings()
        self._options = options
        self.newest: dict[str, int] = {}
        self.rows_in = [0] * placement.replicas
        self._turn = 0
        self._failed: dict[str, Failure] = {}
        self._stores = [MemoryStore() for _ in range(placement.replicas)]
        self.exchanged: dict[str, list[pa.RecordBatch]] = {}
        self.results: dict[str, list[ResultBatch]] = {}
        self._set(queries)
        self.networks = [self._network(replica) for replica in range(placement.replicas)]

    def _set(self, queries: Sequence[Query]) -> None:
        """Runs these queries and fragments from now on."""
        self.queries = {query.name: query for query in queries}
        self._fragments = [query.name for query in queries if isinstance(query.plan, Send)]
        self.results = {name: self.results.get(name, []) for name in self.queries}
        self._sources = {
            node.stream: node for query in queries for node in query.plan.walk() if isinstance(node, Source)
        }

    def _network(self, replica: int) -> Network:
        graph = SharedGraph()
        for query in self.queries.values():
            local = self.placement.local(query, replica)
            if local is not None:
                graph.add(local)
        network = Network(graph, "fifo", self._settings, store=self._stores[replica], **self._options)
        network.given_watermarks = self.placement.replicas > 1
        return network

    def epoch(self, rows: Iterable[tuple[str, pa.RecordBatch]], run: bool = True) -> None:
        """Takes rows: each network first advances to the watermarks of the epochs before, then takes its share."""
        rows = [(stream, batch) for stream, batch in rows if self.placement.routes_of(stream)]
        for network in self.networks:
            for stream, local in self._locals(network):
                if stream in self.newest:
                    network.advance_to(local, self.newest[stream])
        self._receive()
        for stream, batch in rows:
            for replica, local, part in self.routed(stream, batch):
                self.rows_in[replica] += part.num_rows
                self.networks[replica].push(local, part, advance=False)
        for network in self.networks:
            streams = {stream for stream, _ in rows}
            for stream, local in self._locals(network):
                if stream in streams:
                    network.advance(local)
        for stream, batch in rows:
            time = self._sources[stream].time
            newest = None if time is None else highest(batch.column(time))
            if newest is not None:
                self.newest[stream] = max(self.newest.get(stream, newest), newest)
        if run:
            self.run()

    def run(self) -> None:
        for network in self.networks:
            assert network.run().done
        self._take()

    def _take(self) -> None:
        for network in self.networks:
            for name in network.outboxes:
                taken = network.take(name)
                if name in self._fragments:
                    self.exchanged.setdefault(name, []).extend(result.rows for result in taken)
                else:
                    self.results[name] += taken

    def _receive(self) -> None:
        """Takes what fragments have sent, and behind it the lowest of the senders' watermarks."""
        sent, self.exchanged = self.exchanged, {}
        reached = [network.reached for network in self.networks]
        for fragment in self._fragments:
            if not any(fragment in each for each in reached):
                # It has failed.
                continue
            watermark = min(each[fragment] for each in reached if fragment in each)
            for batch in sent.get(fragment, []):
                for replica, local, part in self.routed(fragment, batch):
                    self.networks[replica].push(local, part, advance=False)
            for network in self.networks:
                for stream, local in self._locals(network):
                    if stream == fragment:
                        network.reach(local, watermark)

    def rescale(self, placement: Placement, queries: Sequence[Query] = ()) -> None:
        """Moves to another placement: drains everything, divides the state, goes on with new networks. `queries` are
        the present ones, divided at other exchanges."""
        self.drain()
        manifests = [json.loads(json.dumps(network.snapshot())) for network in self.networks]
        sources = self._stores
        targets = [MemoryStore() for _ in range(placement.replicas)]
        moved = redistributed(self._declared, self.placement, placement, manifests, sources, targets)
        self.close()
        self._failed = dict(self.failures)
        self.placement, self._stores = placement, targets
        if queries:
            self._set(queries)
        self.rows_in = [0] * placement.replicas
        self.networks = [self._network(replica) for replica in range(placement.replicas)]
        for network, manifest in zip(self.networks, moved, strict=True):
            network.restore(json.loads(json.dumps(manifest)))

    def finish(self) -> None:
        """Ends all streams."""
        for network in self.networks:
            network.finish(local for stream, local in self._locals(network) if stream not in self._fragments)
        self.run()
        self.drain()

    def drain(self) -> None:
        """Epochs without rows until nothing is between fragments, and all have the last watermarks."""
        for _ in range(1 + len(self._fragments)):
            self.epoch([])
        assert not any(self.exchanged.values())

    def close(self) -> None:
        for network in self.networks:
            network.close()

    def _locals(self, network: Network) -> list[tuple[str, str]]:
        """The streams that a network reads, with their local names."""
        return [
            (stream, route.local(stream))
            for stream in self.placement.streams
            for route in self.placement.routes_of(stream)
            if route.local(stream) in network.streams
        ]

    def routed(self, stream: str, batch: pa.RecordBatch) -> list[tuple[int, str, pa.RecordBatch]]:
        """The parts of a batch: replica, local name, rows."""
        found = []
        for route in self.placement.routes_of(stream):
            places = self._owners(stream, route, batch)
            for replica in range(self.placement.replicas):
                part = batch.filter(pa.array(places == replica))
                local = route.local(stream)
                if part.num_rows and local in self.networks[replica].streams:
                    found.append((replica, local, part))
        return found

    def _owners(self, stream: str, route: Route, batch: pa.RecordBatch) -> Owners:
        count = batch.num_rows
        if route.kind == "one":
            return np.full(count, route.replica)
        if route.kind == "spread":
            self._turn += count
            return np.arange(self._turn - count, self._turn) % self.placement.replicas
        taken = Batch(batch, Arrival.at(0.0, count))
        return owners(self.placement, stream, [evaluate(key, taken) for key in route.keys])

    def table(self, query: str) -> pa.Table:
        """All results of a query so far."""
        return result_table(self.queries[query], self.results[query])

    @property
    def failures(self) -> Mapping[str, Failure]:
        """The queries that failed on a replica, also in a fragment."""
        failed = (failures for network in self.networks for failures in network.failures.items())
        return self._failed | {name.partition("/")[0]: failure for name, failure in failed}


def any_placement(queries: Sequence[Query], chance: Random) -> Placement:
    """A placement on one to four replicas: the usual one, or each query split by its own key or whole somewhere;
    with the even table of key slots or any other."""
    replicas = chance.choice([1, 2, 3, 4])
    usual = any_owners(place(queries, replicas), chance)
    if chance.random() < 0.4:
        return usual
    routes: dict[str, Mapping[str, Route]] = {}
    for query in queries:
        whole = dict.fromkeys(streams_of(query.plan), Route.to(chance.randrange(replicas)))
        alone = place([query], replicas).routes[query.name]
        routes[query.name] = chance.choice([whole, alone, usual.routes[query.name]])
    return Placement(replicas, routes, usual.owners)


def any_owners(placement: Placement, chance: Random) -> Placement:
    """The placement with the even table, with some slots moved, with all keys on one replica, or with another number of
    slots, as another version may have had."""
    owners = list(placement.table)
    for _ in range(chance.choice([0, 1, 20])):
        owners[chance.randrange(len(owners))] = chance.randrange(placement.replicas)
    one = (chance.randrange(placement.replicas),)
    few = tuple(chance.randrange(placement.replicas) for _ in range(chance.randint(1, 9)))
    return replace(placement, owners=chance.choice([tuple(owners), (), one, few]))


def in_fragments(queries: Sequence[Query], rows: bool = True, once: bool = True) -> list[Query]:
    """The queries divided at exchanges, and their fragments."""
    divisions = [divided(query, rows, once) for query in queries]
    return [part for each in divisions for part in (*each.fragments, each.query)]


def sends_rows(division: Division) -> bool:
    """Whether rows cross an exchange, not only partial results."""
    return any(ROWS in fragment.name for fragment in division.fragments)


def apart(queries: Sequence[Query], replicas: int) -> Placement:
    """Each query and each fragment is split wherever it can be: placed as if it were alone."""
    return Placement(replicas, {query.name: place([query], replicas).routes[query.name] for query in queries})
