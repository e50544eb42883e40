"""Runs real epochs without Spark: the driver's side and the host's, in one process, with rows given by the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.lanes import _columns
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.required_columns import required_columns
from headgate.sql import Catalog
from tests.spark.inline import InlineJobs, inline_host, lane_batch, packed

SECOND = 1_000_000


def table_of(*rows: tuple[float, int]) -> pa.Table:
    """Rows of a stream: event time in seconds, and k."""
    times = pa.array([int(each[0] * SECOND) for each in rows], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": pa.array([each[1] for each in rows], pa.int32())})


class Run:
    """The epochs of an engine with one replica, under a clock of the test. Streams have columns ts and k."""

    def __init__(self, root: Path, script: str) -> None:
        catalog = self.catalog = Catalog()
        catalog.execute(script)
        self.streams = dict(catalog.streams)
        self.now = 100.0
        self.done: list[Epoch] = []
        checkpoint = self.checkpoint = Checkpoint(str(root / "ck"))
        self.host = inline_host()
        jobs, name = InlineJobs(self.host), checkpoint.identity()
        self.epochs = Epochs(jobs, checkpoint, name, "t", self.done.append, None, clock=lambda: self.now)
        self.batches = 0
        self.change()

    def change(self) -> None:
        """Takes over the queries of the catalog; the lane brings what they need."""
        waits = {name: stream.idle for name, stream in self.streams.items() if stream.idle is not None}
        wanted = required_columns(tuple(dict(self.catalog.queries).values()))
        self.packing = Packing({name: _columns(self.streams[name], wanted[name]) for name in wanted})
        queries = tuple(query for query in dict(self.catalog.queries).values() if query.phase(self.now) != "stopped")
        self.epochs.plan = Plan(queries, "cqc", packings={"main@1": self.packing}, idle=waits)

    def bring(self, stream: str, *rows: tuple[float, int]) -> None:
        """Rows of a stream (event time in seconds, and k), and the epochs without new rows that follow."""
        self.run_batch(stream, *rows)
        self.settle()

    def run_batch(self, stream: str, *rows: tuple[float, int]) -> None:
        """The epoch of a micro-batch."""
        batch = lane_batch("main", "main@1", self.batches, [packed(self.packing, stream, table_of(*rows))])
        self.epochs.run_batch(batch)
        self.batches += 1

    def settle(self) -> None:
        """The epochs without new rows that the driver's loop would run at this time."""
        while self.epochs.follow_up or self.epochs.change_pending or self.epochs.waiting or self.epochs.idle_wait == 0:
            self.epochs.run_backlog()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def results(self, query: str) -> list[tuple[Any, ...]]:
        """The rows so far."""
        found: list[tuple[Any, ...]] = []
        for epoch in self.done:
            for data in epoch.inline.get(query, ()):
                found += [tuple(row.values()) for row in pa.ipc.open_stream(data).read_all().to_pylist()]
        return found
