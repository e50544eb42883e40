"""Stands in for Spark in tests of the protocol alone: a host in this process answers the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from headgate.spark.host import Host
from headgate.spark.jobs import Answers
from headgate.spark.lane import Lane, LaneBatch
from headgate.spark.messages import EpochAnswer, HostAddress, JobRequest
from headgate.spark.packing import TAG, Packing

ADDRESS = HostAddress("here", "none", 0)

_hosts: list[Host] = []


def inline_host() -> Host:
    """A host in this process. It ends with the block of `hosts_end`, at the latest with the test (`conftest.py`)."""
    _hosts.append(Host(ADDRESS))
    return _hosts[-1]


@contextmanager
def hosts_end() -> Iterator[None]:
    """The hosts that are made in the block end with it."""
    before = len(_hosts)
    try:
        yield
    finally:
        while len(_hosts) > before:
            _hosts.pop().close()


class Frame:
    """A micro-batch of packed rows."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = list(batches)


class InlineJobs:
    """The `Jobs` of epochs, done by a host in this process."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks = 0

    def answers(self, packed: Frame, replicas: int) -> Frame:
        assert replicas == 1
        return packed

    def collect(self, answers: Frame, request: JobRequest) -> Answers:
        found: list[EpochAnswer] = []
        self._tasks += 1
        # What crosses the wire is what `text` and `pack` keep.
        sent = JobRequest.parse(request.text()).of(0)
        self._host.epoch(sent, str(self._tasks), lambda: iter(answers.batches), found.append)
        return (EpochAnswer.unpack(found[0].pack()),)

    def ask(self, request: JobRequest) -> Answers:
        return self.collect(Frame([]), request)

    def end_job(self) -> None:
        pass

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        raise AssertionError("nothing runs in the background here")


def lane_batch(name: str, key: str, number: int, batches: Sequence[pa.RecordBatch]) -> LaneBatch:
    """A micro-batch of a lane that is not running."""

    def unused(*_: Any) -> None:
        raise AssertionError("this lane is never started")

    lane = Lane(name, key, None, False, "unused", cast(Any, unused), cast(Any, unused))
    return LaneBatch(lane, number, Frame(batches))


def packed(packing: Packing, stream: str, rows: pa.Table) -> pa.RecordBatch:
    """Rows laid into the slots as Spark does it; the carried columns must be plain columns."""
    columns: dict[str, Any] = {TAG: pa.array([packing.streams.index(stream)] * rows.num_rows, pa.int16())}
    for slot, text in zip(packing.slots, packing.select(stream)[1:], strict=True):
        name = text.removeprefix("CAST(").split(" AS ")[0].strip("`")
        columns[slot.name] = pa.nulls(rows.num_rows, slot.type) if name == "NULL" else rows.column(name)
    return pa.table(columns).combine_chunks().to_batches()[0]
