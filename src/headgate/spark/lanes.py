"""The lanes of an engine: which lane reads which stream, the columns it carries, and starting, restarting, stopping."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query, Stream
from headgate.graph.types import Schema
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.epoch_failures import EpochFailures, LaneError
from headgate.spark.lane import Lane
from headgate.spark.packing import Packing
from headgate.spark.required_columns import RequiredColumns, required_columns
from headgate.spark.source_rows import SourceRows, StreamOpener


@dataclass
class _PlannedLane:
    """A lane as planned: its streams in order, and the columns that it carries of each."""

    name: str
    streams: list[str]
    carried: dict[str, RequiredColumns]
    version: int = 0
    packing: Packing | None = None
    lane: Lane | None = None

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"


class Lanes:
    """The lanes of an engine. The streams known at the start share one; each later one gets a lane of its own.

    `deliver(lane, packing key, batch, frame)` runs an epoch. Spark's own checkpoints of the lanes are in the folder
    `lanes` of the checkpoint, beside a list of the streams that each lane reads: after a restart Spark needs the same
    sources in the same order.
    """

    def __init__(
        self,
        sources: StreamOpener,
        checkpoint: Checkpoint,
        frames: Mapping[str, Any],
        deliver: Callable[[str, str, int, Any], None],
        every: float = 0.0,
    ) -> None:
        self._sources = sources
        self._every = every
        self._checkpoint = checkpoint
        self._frames = frames
        self._deliver = deliver
        self._planned: dict[str, _PlannedLane] = {}
        self._streams: dict[str, Stream] = {}
        self._rows: dict[tuple[str, ...], SourceRows] = {}
        self._stale: set[str] = set()
        self._once: bool | None = None
        self._lock = threading.RLock()
        self._failed: Exception | None = None
        self._stopped = False
        self._watch: threading.Thread | None = None
        for name, streams in _noted(checkpoint).items():
            self._planned[name] = _PlannedLane(name, streams, {})

    def plan(self, streams: Mapping[str, Stream], queries: Iterable[Query]) -> dict[str, Packing]:
        """Plans the lanes for these queries; returns every packing that running lanes may still deliver. Running lanes
        change only in `apply`."""
        with self._lock:
            self._streams.update(streams)
            wanted = required_columns(queries)
            self._assign([name for name in wanted if not self._lane_of(name)])
            for planned in self._planned.values():
                self._plan_lane(planned, {name: wanted.get(name, RequiredColumns()) for name in planned.streams})
            return {planned.key: planned.packing for planned in self._planned.values() if planned.packing is not None}

    def start(self, *, once: bool) -> None:
        """Starts all lanes; with `once`, each ends when it has read all rows that are available now."""
        with self._lock:
            self._once = once
            self._stale = set(self._planned)
        self.apply()
        if not once:
            self._watch = threading.Thread(target=self._restart_failed, name="headgate-lanes", daemon=True)
            self._watch.start()

    def apply(self) -> None:
        """Starts new lanes and restarts those that must carry more columns. Callers must not hold a lock."""
        if self._once is None:
            return
        with self._lock:
            for name in sorted(self._stale):
                planned = self._planned[name]
                if planned.lane is not None:
                    planned.lane.stop()
                planned.lane = self._make(planned)
                planned.lane.start(once=self._once, every=self._every)
            self._stale.clear()

    @property
    def active(self) -> bool:
        return any(planned.lane is not None and planned.lane.active for planned in self._planned.values())

    @property
    def delivering(self) -> bool:
        """Whether some lane is about to deliver rows."""
        return any(planned.lane is not None and planned.lane.delivering for planned in list(self._planned.values()))

    @property
    def failure(self) -> Exception | None:
        return self._failed

    def fail(self, error: Exception) -> None:
        """Stops the engine for an error outside the lanes."""
        self._failed = self._failed or error

    def wait(self) -> None:
        """Waits until all lanes have ended; used with `once`."""
        failures = EpochFailures(self._checkpoint.uri)
        for planned in list(self._planned.values()):
            while planned.lane is not None:
                planned.lane.wait()
                error = planned.lane.failure
                if error is None:
                    break
                final = failures.final(error)
                if final is not None:
                    self.fail(final)
                    return
                with self._lock:
                    self._stale.add(planned.name)
                self.apply()

    def stop(self) -> None:
        self._stopped = True
        with self._lock:
            for planned in self._planned.values():
                if planned.lane is not None:
                    planned.lane.stop()
        if self._watch is not None:
            self._watch.join()

    def _restart_failed(self) -> None:
        """Restarts lanes whose epoch failed for a transient reason, such as a killed worker."""
        failures = EpochFailures(self._checkpoint.uri)
        while not self._stopped and self._failed is None:
            time.sleep(0.1)
            for planned in list(self._planned.values()):
                error = planned.lane.failure if planned.lane is not None and not planned.lane.active else None
                if error is None or self._stopped:
                    continue
                final = failures.final(error)
                if final is not None:
                    self.fail(final)
                    return
                with self._lock:
                    self._stale.add(planned.name)
                self.apply()

    def _lane_of(self, stream: str) -> str | None:
        return next((planned.name for planned in self._planned.values() if stream in planned.streams), None)

    def _assign(self, new: list[str]) -> None:
        if not new:
            return
        together = not self._planned and self._once is None
        groups = [new] if together else [[stream] for stream in new]
        for group in groups:
            name = "main" if together else f"lane-{len(self._planned)}-{group[0]}"
            self._planned[name] = _PlannedLane(name, group, {})
        noted = {planned.name: planned.streams for planned in self._planned.values()}
        self._checkpoint.write("lanes.json", json.dumps(noted).encode())

    def _plan_lane(self, planned: _PlannedLane, wanted: dict[str, RequiredColumns]) -> None:
        if planned.packing is not None and all(planned.carried[name].covers(wanted[name]) for name in planned.streams):
            return
        for group in self._groups(planned):
            # Streams that are read as one source carry the same columns.
            shared = RequiredColumns()
            for name in group:
                for each in (planned.carried.get(name, RequiredColumns()), wanted[name]):
                    shared = RequiredColumns(shared.columns | each.columns, shared.foreign | each.foreign)
            planned.carried.update(dict.fromkeys(group, shared))
        planned.version += 1
        flaws = {
            name: flaw
            for group in self._groups(planned)
            for name in group
            if (flaw := self._open(group).flaw) is not None
        }
        planned.packing = Packing(
            {name: _columns(self._streams[name], planned.carried[name]) for name in planned.streams},
            flaws,
            {name: _computed(planned.carried[name]) for name in planned.streams},
        )
        self._stale.add(planned.name)

    def _groups(self, planned: _PlannedLane) -> list[list[str]]:
        """The streams of a lane, grouped by the source that reads them, in an order that restarts keep."""
        groups: dict[object, list[str]] = {}
        for name in planned.streams:
            stream = self._streams.get(name)
            key = self._sources.group_key(stream) if stream is not None and name not in self._frames else None
            groups.setdefault(key if key is not None else name, []).append(name)
        return list(groups.values())

    def _open(self, group: list[str]) -> SourceRows:
        for name in group:
            if name not in self._streams:
                raise LaneError(
                    f"stream {name} was read by the script that wrote this checkpoint and is no longer declared;"
                    " declare it again, or give another checkpoint"
                )
        key = tuple(group)
        if key not in self._rows:
            frame = self._frames.get(group[0])
            streams = [self._streams[name] for name in group]
            self._rows[key] = SourceRows(frame) if frame is not None else self._sources.open(streams)
        return self._rows[key]

    def _make(self, planned: _PlannedLane) -> Lane:
        packing = planned.packing
        assert packing is not None
        frames = []
        folders: list[str] | None = []
        for group in self._groups(planned):
            rows = self._open(group)
            folders = None if folders is None or rows.folders is None else [*folders, *rows.folders]
            tag = None
            if rows.member is not None:
                numbers = ", ".join(str(packing.streams.index(name)) for name in group)
                tag = f"element_at(array({numbers}), {rows.member} + 1)"
            frames.append(rows.frame.selectExpr(*packing.select(group[0], tag)))
        key = planned.key
        return Lane(
            planned.name,
            frames,
            packing,
            lambda lane, batch, frame: self._deliver(lane.name, key, batch, frame),
            f"{self._checkpoint.uri.rstrip('/')}/lanes/{planned.name}",
            folders,
        )


def _columns(stream: Stream, carried: RequiredColumns) -> list[tuple[str, pa.DataType, str | None]]:
    """The declared columns of a stream; columns that no query reads are not carried."""
    schema: Schema = stream.schema
    columns: list[tuple[str, pa.DataType, str | None]] = []
    for place, column in enumerate(schema.fields):
        quoted = f"`{column.name.replace('`', '``')}`"
        columns.append((column.name, column.type, quoted if place in carried.columns else None))
    return columns


def _computed(carried: RequiredColumns) -> list[tuple[str, pa.DataType, str]]:
    """The columns that Catalyst computes from a stream's rows."""
    return [(key, foreign.type, foreign.sql) for key, foreign in sorted(carried.foreign.items())]


def _noted(checkpoint: Checkpoint) -> dict[str, list[str]]:
    text = checkpoint.text("lanes.json")
    return {} if text is None else json.loads(text)
