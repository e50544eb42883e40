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
    """The function of `mapInArrow`: one row, the packed `EpochAnswer`; none if another task of the epoch gets it. The
    request is a local property of the job; the number of the partition is that of the replica, or of the task if there
    is one replica."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    text = context.getLocalProperty(PROPERTY)
    if text is None:
        raise RuntimeError(f"the job has no property {PROPERTY}; only the driver of Headgate starts this function")
    job = JobRequest.parse(text)
    partition = context.partitionId()
    replica, number = (partition, 0) if len(job.parts) > 1 else (0, partition)
    answer = bring(job.of(replica), str(context.taskAttemptId()), batches, number)
    if answer:
        yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])


def bring(request: EpochRequest, task: str, batches: Iterator[pa.RecordBatch], number: int = 0) -> bytes:
    """Sends the rows to the host as they arrive, and returns its packed answer; nothing if other tasks of the request
    have not yet brought their rows.

    `task` is the name of the task attempt, `number` that of the task, below `request.tasks`. HostLost if the host ends
    meanwhile, HostRefused if it refuses or fails, CheckpointError if the checkpoint cannot be used.
    """
    wire, address = _connect(request)
    try:
        head = {"kind": "epoch", "token": request.token, "task": task, "number": number, "request": request.text()}
        wire.send(head)
        _expect(wire, "go")
        wire.send_rows(batches)
        return _expect(wire, "answer", "delivered")
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
