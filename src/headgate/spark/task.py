"""A Spark task: brings the rows of an epoch to the host of its replica, and returns the host's answer.

Imports neither SQL nor the network: Spark's Python workers load it with every task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headgate.spark.host_client import HostLost, HostRefused, connect, ensure_host, last_death
from headgate.spark.messages import PROPERTY, EpochRequest, HostAddress, JobRequest
from headgate.spark.processes import executor_pid, memory_of_host
from headgate.spark.wire import ConnectionLost, Wire

REPLICA = "replica"
"""The column of packed rows with the replica of each row; only if there are several replicas."""

MOST_ROWS, MOST_BYTES = 1 << 18, 1 << 25
"""Rows, and bytes of them, that a task gathers before it divides them between replicas."""

T = TypeVar("T")


def carry(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`: one row, the packed `EpochAnswer`; none if another task of the epoch gets it. The
    request is a local property of the job; the number of the partition is that of the replica, or of the task if there
    is one replica."""
    job, partition, attempt = _started()
    replica, number = (partition, 0) if len(job.parts) > 1 else (0, partition)
    yield from _rows([bring(job.of(replica), attempt, batches, number)])


def spread(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As `carry`, with several replicas whose hosts are all on this node: each task brings rows to all of them, so that
    the hosts get rows while others are still being read, and no shuffle is needed."""
    job, partition, attempt = _started()
    yield from _rows(bring_all(job.all(), attempt, batches, partition))


def _started() -> tuple[JobRequest, int, str]:
    """The request of the job, the partition, and the name of the task attempt."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    text = context.getLocalProperty(PROPERTY)
    if text is None:
        raise RuntimeError(f"the job has no property {PROPERTY}; only the driver of Headgate starts this function")
    return JobRequest.parse(text), context.partitionId(), str(context.taskAttemptId())


def _rows(answers: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for answer in answers:
        if answer:
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])


def bring(
    request: EpochRequest, task: str, batches: Iterator[pa.RecordBatch], number: int = 0, start: bool = True
) -> bytes:
    """Sends the rows to the host as they arrive, and returns its packed answer; nothing if other tasks of the request
    have not yet brought their rows.

    `task` is the name of the task attempt, `number` that of the task, below `request.tasks`. If the host has ended,
    another one is started (`start`). HostLost if the host ends meanwhile, HostRefused if it refuses or fails,
    CheckpointError if the checkpoint cannot be used.
    """
    with ExitStack() as closing:
        host = _HostConnection(request, task, number, closing, start)
        host.call(lambda wire: wire.send_rows(batches))
        return host.answer()


def bring_all(
    requests: Sequence[EpochRequest], task: str, batches: Iterator[pa.RecordBatch], number: int
) -> Iterator[bytes]:
    """Sends each row to the host of the replica that its column `REPLICA` names, as the rows arrive; returns the packed
    answers that are not left to other tasks. Errors: see `bring`."""
    with ExitStack() as closing:
        hosts = [_HostConnection(request, task, number, closing) for request in requests]
        for full in gathered(batches):
            for replica, rows in enumerate(divided_rows(full, len(hosts))):
                if rows.num_rows:
                    hosts[replica].call(lambda wire, rows=rows: wire.send_batch(rows))  # type: ignore[misc]
        for host in hosts:
            host.call(Wire.end_rows)
        yield from [answer for host in hosts if (answer := host.answer())]


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches as large as may be. Divided into small parts, they would cost operators more."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(each.num_rows for each in found) >= MOST_ROWS or sum(each.nbytes for each in found) >= MOST_BYTES:
            yield from pa.Table.from_batches(found).combine_chunks().to_batches()
            found = []
    if found:
        yield from pa.Table.from_batches(found).combine_chunks().to_batches()


def divided_rows(batch: pa.RecordBatch, replicas: int) -> list[pa.RecordBatch]:
    """The rows of each replica, in order, without the column `REPLICA`."""
    place = batch.schema.get_field_index(REPLICA)
    owners = batch.column(place).to_numpy().astype(np.int16)
    rows = batch.remove_column(place).take(pa.array(np.argsort(owners, kind="stable")))
    edges = np.cumsum(np.bincount(owners, minlength=replicas)).tolist()
    return [rows.slice(start, stop - start) for start, stop in pairwise([0, *edges])]


class _HostConnection:
    """A connection to a host that has agreed to serve an epoch."""

    def __init__(self, request: EpochRequest, task: str, number: int, closing: ExitStack, start: bool = True) -> None:
        self._request = request
        self._wire, self._address = _connect(request, start)
        closing.callback(self._wire.close)
        head = {"kind": "epoch", "token": request.token, "task": task, "number": number, "request": request.text()}
        self.call(lambda wire: wire.send(head))
        self.call(lambda wire: _expect(wire, "go"))

    def answer(self) -> bytes:
        return self.call(lambda wire: _expect(wire, "answer", "delivered"))

    def call(self, action: Callable[[Wire], T]) -> T:
        """Does something with the wire; HostLost if the host ends meanwhile."""
        try:
            return action(self._wire)
        except ConnectionLost as error:
            request = self._request
            reason = last_death(self._address, request.token) or str(error)
            raise HostLost(f"HostLost: the host of replica {request.replica} was lost: {reason}") from error


def _connect(request: EpochRequest, start: bool) -> tuple[Wire, HostAddress]:
    """A connection to the host that the driver knows, or else to the one of this node, which is started if need be."""
    if request.host is not None:
        try:
            return connect(request.host), request.host
        except ConnectionLost as error:
            if not start:
                raise HostLost(f"HostLost: the host of replica {request.replica} has ended: {error}") from error
    owner = request.owner or executor_pid()
    memory = request.memory or memory_of_host(request.hosts)
    address = ensure_host(request.run, request.replica, request.token, owner, tcp=not request.owner, memory=memory)
    try:
        return connect(address), address
    except ConnectionLost as error:
        raise HostLost(f"HostLost: the host of replica {request.replica} does not listen: {error}") from error


def _expect(wire: Wire, *kinds: str) -> bytes:
    """Receives a message of one of these kinds, or raises the error that the host reports instead."""
    message, data = wire.receive()
    if message["kind"] in kinds:
        return data
    if message["kind"] == "lost":
        raise HostLost(f"HostLost: {message['message']}")
    if message["kind"] == "checkpoint":
        from headgate.spark.checkpoint import CheckpointError

        raise CheckpointError(message["message"])
    raise HostRefused(message["kind"], message["message"])
