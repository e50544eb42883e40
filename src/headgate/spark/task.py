"""A Spark task: brings the rows of an epoch to the host of its replica, and returns the host's answer.

Imports neither SQL nor the network: Spark's Python workers load it with every task.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headgate.spark.host_client import HostLost, HostRefused, connect, ensure_host, last_death
from headgate.spark.messages import PROPERTY, EpochRequest, HostAddress, JobRequest
from headgate.spark.processes import executor_pid, memory_of_host
from headgate.spark.wire import ConnectionLost, Wire


def carry(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`: one row, the packed `EpochAnswer`. The request is a local property of the job, and
    the number of the partition is that of the replica."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    text = context.getLocalProperty(PROPERTY)
    if text is None:
        raise RuntimeError(f"the job has no property {PROPERTY}; only the driver of Headgate starts this function")
    request = JobRequest.parse(text).of(context.partitionId())
    answer = bring(request, str(context.taskAttemptId()), batches)
    yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])


def bring(request: EpochRequest, task: str, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Sends the rows to the host as they arrive, and returns its packed answer.

    `task` is the name of the task attempt. HostLost if the host ends meanwhile, HostRefused if it refuses or fails,
    CheckpointError if the checkpoint cannot be used.
    """
    wire, address = _connect(request)
    try:
        wire.send({"kind": "epoch", "token": request.token, "task": task, "request": request.text()})
        _expect("go", wire)
        wire.send_rows(batches)
        return _expect("answer", wire)
    except ConnectionLost as error:
        reason = last_death(address, request.token) or str(error)
        raise HostLost(f"HostLost: the host of replica {request.replica} was lost: {reason}") from error
    finally:
        wire.close()


def _connect(request: EpochRequest) -> tuple[Wire, HostAddress]:
    """A connection to the host that the driver knows, or else to the one of this node."""
    if request.host is not None:
        try:
            return connect(request.host), request.host
        except ConnectionLost:
            pass
    owner = request.owner or executor_pid()
    memory = request.memory or memory_of_host(request.hosts)
    address = ensure_host(request.run, request.replica, request.token, owner, tcp=not request.owner, memory=memory)
    try:
        return connect(address), address
    except ConnectionLost as error:
        raise HostLost(f"HostLost: the host of replica {request.replica} does not listen: {error}") from error


def _expect(kind: str, wire: Wire) -> bytes:
    """Receives a message of this kind, or raises the error that the host reports instead."""
    message, data = wire.receive()
    if message["kind"] == kind:
        return data
    if message["kind"] == "lost":
        raise HostLost(f"HostLost: {message['message']}")
    if message["kind"] == "checkpoint":
        from headgate.spark.checkpoint import CheckpointError

        raise CheckpointError(message["message"])
    raise HostRefused(message["kind"], message["message"])
