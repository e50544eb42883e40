"""Stands in for Spark in tests of several replicas: hosts in this process answer, and rows follow the routes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.connectors.registry import RegisteredSinks
from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.delivery import Delivery
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.host import Host
from headgate.spark.jobs import Answers
from headgate.spark.key_slots import owners
from headgate.spark.lanes import _columns
from headgate.spark.messages import EpochAnswer, JobRequest
from headgate.spark.packing import Packing
from headgate.spark.placement import Placement, bits_of
from headgate.spark.plan import Plan
from headgate.spark.replicas import parts_of, placed
from headgate.spark.required_columns import required_columns
from headgate.sql import Catalog
from tests.spark.inline import Frame, inline_host, lane_batch, packed


class InlineReplicas:
    """The `Jobs` of epochs, done by one host per replica in this process: those in `hosts`, and others when needed.

    `plan`: the plan that lanes follow.
    """

    def __init__(self, hosts: dict[int, Host], plan: Callable[[], Plan]) -> None:
        self._hosts = hosts
        self._plan = plan
        self._tasks = 0

    def answers(self, packed: Frame, replicas: int) -> Frame:
        return packed

    def collect(self, answers: Frame, request: JobRequest) -> Answers:
        found: list[EpochAnswer] = []
        self._tasks += 1
        # What crosses the wire is what `text` and `pack` keep.
        for replica, each in enumerate(JobRequest.parse(request.text()).all()):
            if replica not in self._hosts:
                self._hosts[replica] = inline_host()
            host = self._hosts[replica]
            rows = [part for batch in answers.batches for part in self._routed(batch, replica, each.packing)]
            host.epoch(each, str(self._tasks), lambda rows=rows: iter(rows), found.append)  # type: ignore[misc]
        return tuple(EpochAnswer.unpack(answer.pack()) for answer in found)

    def _routed(self, batch: pa.RecordBatch, replica: int, packing: str | None) -> list[pa.RecordBatch]:
        """The rows of a packed batch that a replica gets, with their masks, as `routing.py` makes them."""
        plan = self._plan()
        if plan.placement is None or packing is None:
            return [batch]
        [(stream, rows, *_)] = plan.packings[packing].unpack(batch)
        routes = plan.placement.routes_of(stream)
        mask = np.zeros(batch.num_rows, np.int64)
        for bit, route in zip(bits_of(routes), routes, strict=True):
            there = np.full(batch.num_rows, route.replica)
            if route.kind == "spread":
                there = np.arange(batch.num_rows) % plan.replicas
            elif route.kind == "key":
                taken = Batch(rows, Arrival.at(0.0, rows.num_rows))
                there = owners(plan.placement, stream, [evaluate(key, taken) for key in route.keys])
            mask |= (there == replica).astype(np.int64) << bit
        if not routes:
            return [batch] if replica == 0 else []
        return [batch.append_column("mask", pa.array(mask)).filter(pa.array(mask != 0))]

    def ask(self, request: JobRequest) -> Answers:
        return self.collect(Frame([]), request)

    def end_job(self) -> None:
        pass

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        raise AssertionError("nothing runs in the background here")


class ReplicaRun:
    """A run of the driver's side over several replicas, from the checkpoint on."""

    def __init__(
        self,
        root: Path,
        script: str,
        replicas: int,
        checkpoint: Checkpoint | None = None,
        hosts: dict[int, Host] | None = None,
        kept: int = 10,
    ) -> None:
        """`kept`: so many results of an epoch come from each replica."""
        self._kept = kept
        catalog = self.catalog = Catalog()
        catalog.execute(script)
        self._root = root
        self.checkpoint = checkpoint or Checkpoint(str(root / "ck"))
        wanted = required_columns(tuple(dict(catalog.queries).values()))
        self.packing = Packing({name: _columns(catalog.streams[name], wanted[name]) for name in wanted})
        self.done: list[Epoch] = []
        jobs = InlineReplicas({} if hosts is None else hosts, lambda: self.epochs.plan)
        run = self.checkpoint.identity()
        self.now = 100.0
        self.epochs = Epochs(jobs, self.checkpoint, run, "token", self.done.append, None, clock=lambda: self.now)
        self.rescale(replicas)

    def plan(self, replicas: int, placement: Placement | None = None) -> Plan:
        """The plan of the catalog's queries that have not ended."""
        declared = dict(self.catalog.queries)
        queries = tuple(query for name, query in declared.items() if name not in self.epochs.commit.ended)
        before = self.epochs.known_plan(replicas)
        parts = parts_of(queries, replicas, before)
        opener = f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}"
        return Plan(
            queries,
            "cqc",
            packings={"main@1": self.packing},
            delivery=Delivery(opener, str(self._root), self._kept, str(self._root / "dead")),
            placement=placement or placed(parts or queries, replicas, before),
            parts=parts,
            idle={name: each.idle for name, each in dict(self.catalog.streams).items() if each.idle is not None},
        )

    def rescale(self, replicas: int) -> None:
        """The next epoch has another number of replicas."""
        self.epochs.plan = self.plan(replicas)

    def bring(self, number: int, stream: str, *tables: pa.Table) -> None:
        """Micro-batch `number`, and the epochs without new rows that follow."""
        self.run_batch(number, stream, *tables)
        self.settle()

    def run_batch(self, number: int, stream: str, *tables: pa.Table) -> None:
        """The epoch of micro-batch `number`."""
        parts = [packed(self.packing, stream, table) for table in tables]
        self.epochs.run_batch(lane_batch("main", "main@1", number, parts))

    def settle(self) -> None:
        """The epochs without new rows that the driver's loop would run now."""
        while self.epochs.follow_up or self.epochs.change_pending or self.epochs.waiting or self.epochs.idle_wait == 0:
            self.epochs.run_backlog()

    def wait(self, seconds: float) -> None:
        """Lets time pass, by which streams fall idle."""
        self.now += seconds
        self.settle()

    def finish(self) -> None:
        """Ends all streams."""
        self.epochs.run_backlog(finish=True)

    def results(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query so far."""
        found: list[tuple[Any, ...]] = []
        for epoch in self.done:
            for data in epoch.inline.get(query, ()):
                found += [tuple(row.values()) for row in pa.ipc.open_stream(data).read_all().to_pylist()]
        return found
