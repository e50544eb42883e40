"""The messages of driver and hosts, sent through Spark tasks: one request and one answer per replica and epoch.

A message is a dataclass of plain values. On the wire it is a line of JSON with its type, followed by the bytes that it
names (`pack`, `unpack`). Imports neither SQL nor the network: Spark's Python workers load it with every task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

PROPERTY = "headgate.epoch"
"""The local property of a Spark job that carries its `JobRequest`, as JSON."""

ANSWER_DDL = "answer binary"
"""The columns that a task returns: one row, a packed `EpochAnswer`."""

DEAD = "dead letters"
"""The name of the malformed rows among the results."""


BLAMED = "the queries to blame fail, and the epoch is repeated for all others"
"""Part of the error of a task whose host ended, if the queries that caused it are known."""


@dataclass(frozen=True)
class Place:
    """The location of bytes in the checkpoint: a file, the range in it, and their checksum."""

    file: str
    offset: int
    length: int
    crc: int


@dataclass(frozen=True)
class HostAddress:
    """Where a host listens: a Unix socket on its node, and a TCP port if other nodes may reach it (0: they may not).

    `pid` is the process of its supervisor, `owner` the one that it ends with: on a cluster an executor.
    """

    node: str
    socket: str
    pid: int
    tcp: str = ""
    port: int = 0
    owner: int = 0


@dataclass(frozen=True)
class ExpressionFailure:
    """A query that fails outside of a host: the operator, the expression, and the message.

    Catalyst raised, or the query failed on another replica.
    """

    query: str
    operator: str
    detail: str
    error: str


@dataclass(frozen=True)
class ExchangedRows:
    """Rows that a fragment of a query sends to the replicas that read its stream (`exchange.py`).

    `arrived`: the mean time at which the rows behind them arrived (s since 1970).
    """

    fragment: str
    place: Place
    arrived: float


@dataclass(frozen=True)
class EpochRequest:
    """The driver's request to the host of a replica for one epoch. Small: plan and state are in the checkpoint.

    - `run`: the identity of the checkpoint; `token`: the secret that a host asks for
    - `fence`: (generation of the driver, number of the request); rises with every request. A host refuses a request
      with a lower fence than one that it has seen
    - `after`: the last committed epoch, from whose state this one continues; -1 if there is none
    - `attempt`: a name for this attempt at the epoch, never used before
    - `packing`: how the rows are packed; None for an epoch without new rows
    - `arrived`: when the rows arrived (s since 1970)
    - `budget`: seconds that the job may wait for the network; None: until its queues are empty
    - `finish`: every stream ends
    - `detailed`: whether the answer includes the metrics, which are expensive to gather and to send
    - `host`: where the host of the replica was last; None if the driver knows of none
    - `owner`: the process that a host started for this request ends with; 0: the executor of the task
    - `expression_failures`: queries for which Catalyst raised on these rows: they fail
    - `continues`: the file of the replica's snapshot in the commit `after`. A host that answered that epoch with
      another one restores the commit: its answer was lost, and the epoch was repeated elsewhere
    - `memory`: memory limit (bytes) of a host that is started for this request; 0: its default
    - `reply`: the driver's socket, to which the host also sends its answer (`replies.py`); empty: only to the task
    - `hosts`: number of hosts on a node, which share its memory
    - `event_times`: the newest event time of each stream, over all replicas, in the commit `after`. The watermarks of
      the network follow it alone. None: there is one replica, and watermarks follow its rows
    - `failed_elsewhere`: queries that failed on another replica: they fail here, too
    - `exchange`: rows that fragments sent in the commit `after`, from all replicas; a receiver takes its own.
      `reached`: the watermark behind the rows of each fragment, the lowest of all senders
    - `idle`: the watermarks of idle streams (`idle_streams.py`)
    - `tasks`: number of tasks that bring the rows of the epoch to this host; the last one gets the answer
    - `withheld`: paused queries whose rows are processed all the same, so that their state can move (`moving.py`);
      their results stay in the network
    """

    run: str
    token: str
    fence: tuple[int, int]
    checkpoint: str
    epoch: int
    after: int
    attempt: str
    plan: str
    packing: str | None
    arrived: float
    budget: float | None = None
    finish: bool = False
    detailed: bool = True
    replica: int = 0
    host: HostAddress | None = None
    owner: int = 0
    expression_failures: tuple[ExpressionFailure, ...] = ()
    continues: str = ""
    memory: int = 0
    reply: str = ""
    hosts: int = 1
    event_times: Mapping[str, int] | None = None
    failed_elsewhere: tuple[ExpressionFailure, ...] = ()
    exchange: tuple[ExchangedRows, ...] = ()
    reached: Mapping[str, int] = field(default_factory=dict)
    idle: Mapping[str, int] = field(default_factory=dict)
    tasks: int = 1
    withheld: tuple[str, ...] = ()

    def text(self) -> str:
        return json.dumps(vars(self), separators=(",", ":"), default=vars)

    @staticmethod
    def parse(text: str) -> EpochRequest:
        return EpochRequest.of(json.loads(text))

    @staticmethod
    def of(found: Mapping[str, Any]) -> EpochRequest:
        """The request with these plain values."""
        host = found["host"]
        return EpochRequest(
            **{
                **found,
                "fence": tuple(found["fence"]),
                "host": None if host is None else HostAddress(**host),
                **{
                    name: tuple(ExpressionFailure(**each) for each in found[name])
                    for name in ("expression_failures", "failed_elsewhere")
                },
                "exchange": exchanged(found["exchange"]),
                "withheld": tuple(found["withheld"]),
            }
        )


@dataclass(frozen=True)
class ReplicaPart:
    """What the requests of one job do not share: `host` and `continues` of an `EpochRequest`."""

    host: HostAddress | None = None
    continues: str = ""


@dataclass(frozen=True)
class JobRequest:
    """The driver's request to the hosts of all replicas for one epoch.

    The task of partition r serves replica r. If there is one replica, the tasks of all partitions serve it.
    """

    common: EpochRequest
    parts: tuple[ReplicaPart, ...] = (ReplicaPart(),)

    def of(self, replica: int) -> EpochRequest:
        """The request to one replica."""
        part = self.parts[replica]
        return replace(self.common, replica=replica, host=part.host, continues=part.continues)

    def all(self) -> tuple[EpochRequest, ...]:
        """The requests to all replicas, in order."""
        return tuple(self.of(replica) for replica in range(len(self.parts)))

    def text(self) -> str:
        return json.dumps(vars(self), separators=(",", ":"), default=vars)

    @staticmethod
    def parse(text: str) -> JobRequest:
        found = json.loads(text)
        parts = (
            ReplicaPart(None if part["host"] is None else HostAddress(**part["host"]), part["continues"])
            for part in found["parts"]
        )
        return JobRequest(EpochRequest.of(found["common"]), tuple(parts))


@dataclass(frozen=True)
class WrittenFile:
    """A file of results that a host has written under a hidden name; publishing moves it to its `final` name.

    Both names are relative to `folder`: an absolute path, or a URI that `pyarrow.fs` opens.
    """

    query: str
    folder: str
    hidden: str
    final: str
    rows: int


@dataclass(frozen=True)
class EpochAnswer:
    """The host's answer: the state is written, and the results are written or part of the answer.

    - `restored`: whether the host had to restore its state for this epoch
    - `snapshot`: the place of the manifest; `files`: all files that the state needs
    - `results`, `newest`, `unwritten`, `written`, `rows`, `malformed`, `inline`: see `Delivered` in `delivery.py`
    - `arrivals`: count, total and first of the arrival times behind each query's results
    - `failures`: every query that has failed so far (`Failure.state`); `failed`: those that failed in this epoch
    - `taken`: rows that were new in this epoch
    - `waiting`: rows that wait in queues; the host continues to process them
    - `selected`: for streams read only by selections, rows so far and rows kept
    - `event_times`: the newest event time of each stream among the rows of this replica; `arrived`: the streams of
      which rows arrived in this epoch
    - `exchange`: rows that fragments of queries send to other replicas; `reached`: the watermark of each fragment
    - `key_rows`: with metrics, about how many rows of each key slot have come, by the local name of their stream
    - `once`: for queries that answer once, the result rows so far, and what waits for their operators
    """

    replica: int
    epoch: int
    attempt: str
    host: HostAddress
    restored: bool
    snapshot: Place
    files: tuple[str, ...]
    results: tuple[tuple[str, Place], ...] = ()
    newest: tuple[tuple[str, Place], ...] = ()
    unwritten: tuple[tuple[str, Place], ...] = ()
    written: tuple[WrittenFile, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    arrivals: Mapping[str, tuple[int, float, float]] = field(default_factory=dict)
    failures: tuple[Mapping[str, Any], ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    taken: int = 0
    waiting: int = 0
    grants: int = 0
    selected: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    event_times: Mapping[str, int] = field(default_factory=dict)
    arrived: tuple[str, ...] = ()
    exchange: tuple[ExchangedRows, ...] = ()
    reached: Mapping[str, int] = field(default_factory=dict)
    once: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, Any] | None = None
    key_rows: Mapping[str, Sequence[float]] = field(default_factory=dict)
    inline: Mapping[str, bytes] = field(default_factory=dict)
    """Results (Arrow IPC streams) that the driver need not read from the outbox, by query."""

    def pack(self) -> bytes:
        plain = {**vars(self), "inline": [[name, len(data)] for name, data in self.inline.items()]}
        # `default` is called for places and files: `asdict` would copy everything, which takes longer than writing it.
        head = json.dumps(plain, separators=(",", ":"), default=vars).encode()
        return b"".join((len(head).to_bytes(4, "big"), head, *self.inline.values()))

    @staticmethod
    def unpack(data: bytes) -> EpochAnswer:
        length = int.from_bytes(data[:4], "big")
        found = json.loads(data[4 : 4 + length])
        inline: dict[str, bytes] = {}
        start = 4 + length
        for name, size in found["inline"]:
            inline[name] = data[start : start + size]
            start += size
        return EpochAnswer(
            **{
                **found,
                "host": HostAddress(**found["host"]),
                "snapshot": Place(**found["snapshot"]),
                "files": tuple(found["files"]),
                "arrived": tuple(found["arrived"]),
                **{
                    name: tuple((query, Place(**place)) for query, place in found[name])
                    for name in ("results", "newest", "unwritten")
                },
                "written": tuple(WrittenFile(**each) for each in found["written"]),
                "arrivals": {query: tuple(each) for query, each in found["arrivals"].items()},
                "failures": tuple(found["failures"]),
                "selected": {stream: tuple(each) for stream, each in found["selected"].items()},
                "exchange": exchanged(found["exchange"]),
                "once": {query: tuple(each) for query, each in found["once"].items()},
                "inline": inline,
            }
        )


def exchanged(found: Sequence[Mapping[str, Any]]) -> tuple[ExchangedRows, ...]:
    """The exchanged rows with these plain values."""
    return tuple(ExchangedRows(each["fragment"], Place(**each["place"]), each["arrived"]) for each in found)
