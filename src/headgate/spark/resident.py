"""The network of a replica as it lives from epoch to epoch: restored, re-planned, fed, and cut into an answer.

`ResidentNetwork` does the work of an epoch; when, and on which thread, is the host's part (`host.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime.flight import FlightRecord
from headgate.runtime.limits import Failure
from headgate.runtime.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.delivery import Delivered, HostWriters
from headgate.spark.messages import EpochRequest, Place
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan

DEAD_SCHEMA = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("row", pa.string())])


@dataclass
class EpochCut:
    """The results up to a moment between two grants, and the snapshot of that moment, before it is written."""

    epoch: int
    attempt: str
    manifest: dict[str, Any]
    results: list[tuple[Query, pa.Table]]
    dead: list[pa.RecordBatch]
    arrivals: dict[str, tuple[int, float, float]]
    failed: dict[str, str]


class ResidentNetwork:
    """A network, the plan that it runs under, and the files that it writes.

    Methods are called by one thread at a time, and another thread may call `network.run` meanwhile; `cut` is called
    while nobody does.
    """

    def __init__(self, request: EpochRequest, record: FlightRecord) -> None:
        """The network at the state of the last committed epoch, under the plan of the request."""
        self._checkpoint = Checkpoint(request.checkpoint)
        self._plan_name = request.plan
        self._plan = plan = Plan.load(self._checkpoint, request.plan)
        self._store = CheckpointStore(self._checkpoint)
        self._run, self._replica = request.run, request.replica
        self._writers = HostWriters(plan.delivery, self._checkpoint, self._run, self._replica)
        self._dead: list[pa.RecordBatch] = []
        graph = SharedGraph()
        for query in plan.queries:
            graph.add(query)
        self.network = Network(
            graph,
            plan.policy,
            Settings(tables=plan.tables),
            limits=plan.limits,
            store=self._store,
            clock=time.time,
            mode=plan.mode,
            threads=plan.threads,
            record=record,
        )
        if request.after >= 0:
            manifest = self._checkpoint.manifest(self._checkpoint.load(request.after).snapshots[request.replica])
            self._store.adopt(manifest)
            self.network.restore(manifest)
        self._reported: dict[str, Failure] = dict(self.network.failures)

    def begin(self, epoch: int, attempt: str) -> None:
        """All files written from now on belong to this attempt at an epoch."""
        self._store.begin(epoch, attempt)

    def follow(self, name: str) -> None:
        """Changes to another plan, unless it is the present one, and keeps the state that both share."""
        if name == self._plan_name:
            return
        plan = Plan.load(self._checkpoint, name)
        before = {query.name: query for query in self._plan.queries}
        after = {query.name: query for query in plan.queries}
        running = self.network.queries
        for old in before:
            if old in running and after.get(old) != before[old]:
                self.network.remove(old)
        for new, query in after.items():
            if before.get(new) != query:
                self.network.add(query)
        if plan.policy != self._plan.policy:
            self.network.policy = plan.policy
        if plan.mode != self._plan.mode:
            self.network.mode = plan.mode
        self._writers = HostWriters(plan.delivery, self._checkpoint, self._run, self._replica)
        self._plan, self._plan_name = plan, name

    def feed(self, packing: str, batches: Iterator[pa.RecordBatch], arrived: float) -> Iterator[None]:
        """Pushes rows into the network as they arrive, and yields after each batch.

        All rows of an epoch are behind the same watermark.
        """
        layout: Packing = self._plan.packings[packing]
        seen: set[str] = set()
        for packed in batches:
            for stream, rows, flaws in layout.unpack(packed):
                if flaws is not None and flaws.null_count < len(flaws):
                    rows = self._without_flaws(stream, rows, flaws)
                if rows.num_rows and stream in self.network.streams:
                    self.network.push(stream, rows, arrived, advance=False)
                    seen.add(stream)
            yield
        for stream in sorted(seen):
            self.network.advance(stream, arrived)

    def _without_flaws(self, stream: str, rows: pa.RecordBatch, flaws: pa.StringArray) -> pa.RecordBatch:
        """Moves malformed rows to the dead letters and returns the others."""
        good = pc.is_null(flaws)
        bad = flaws.filter(pc.invert(good))
        self._dead.append(
            pa.RecordBatch.from_arrays(
                [
                    pa.array([stream] * len(bad)),
                    pa.array(["the row does not have the declared columns"] * len(bad)),
                    bad,
                ],
                schema=DEAD_SCHEMA,
            )
        )
        return rows.filter(good)

    def cut(self, epoch: int, attempt: str) -> EpochCut:
        """Takes all results, and the snapshot that belongs to them. Called while no grant runs."""
        network = self.network
        arrivals: dict[str, tuple[int, float, float]] = {}
        found: list[tuple[Query, pa.Table]] = []
        for query in self._plan.queries:
            results = network.take(query.name) if query.name in network.outboxes else []
            if results:
                found.append((query, pa.Table.from_batches([result.rows for result in results])))
                arrived = [result.arrival for result in results]
                total = (sum(a.count for a in arrived), sum(a.total for a in arrived), min(a.first for a in arrived))
                arrivals[query.name] = total
        dead, self._dead = self._dead, []
        self._store.open_bundle()
        manifest = network.snapshot()
        known = dict(network.failures)
        failed = {name: str(each) for name, each in known.items() if self._reported.get(name) is not each}
        self._reported = known
        return EpochCut(epoch, attempt, manifest, found, dead, arrivals, failed)

    def save(self, cut: EpochCut) -> tuple[Place, tuple[str, ...], Delivered]:
        """Makes results and snapshot durable; returns the place of the manifest, all files that the state needs, and
        where the results are.

        The network may go on meanwhile.
        """
        delivered = self._writers.deliver(cut.results, cut.dead, cut.epoch, cut.attempt)
        return *self._store.close_bundle(cut.manifest), delivered
