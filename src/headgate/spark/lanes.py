"""Which lane brings which stream, what each carries, and their common life: start, change, fail, stop."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query, Stream
from headgate.graph.types import Schema
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.lane import Lane
from headgate.spark.packing import Packing
from headgate.spark.required_columns import RequiredColumns, required_columns
from headgate.spark.source_rows import SourceRows, StreamOpener

_RETRIES = 5
_CALM = 60.0
_UNWRITABLE = ("No space left on device", "Read-only file system", "Disk quota exceeded")


class LaneError(RuntimeError):
    """A lane has stopped for good; the message says why."""


@dataclass
class _Path:
    """A lane as it should be: its streams in order, and what it carries of each."""

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

    `deliver(lane, packing key, batch, frame)` runs an epoch. Spark's own checkpoints of the lanes are below `folder`;
    which streams a lane reads is noted there, since Spark wants the same sources in the same order after a restart.
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
        self._paths: dict[str, _Path] = {}
        self._streams: dict[str, Stream] = {}
        self._rows: dict[tuple[str, ...], SourceRows] = {}
        self._stale: set[str] = set()
        self._once: bool | None = None
        self._lock = threading.RLock()
        self._failed: Exception | None = None
        self._stopped = False
        self._watch: threading.Thread | None = None
        for name, streams in _noted(checkpoint).items():
            self._paths[name] = _Path(name, streams, {})

    def carry(self, streams: Mapping[str, Stream], queries: Iterable[Query]) -> dict[str, Packing]:
        """Plans the lanes for these queries; gives every packing whose rows may still come. Changes nothing that
        runs: `apply` does."""
        with self._lock:
            self._streams.update(streams)
            wanted = required_columns(queries)
            self._assign([name for name in wanted if not self._lane_of(name)])
            for path in self._paths.values():
                self._plan(path, {name: wanted.get(name, RequiredColumns()) for name in path.streams})
            return {path.key: path.packing for path in self._paths.values() if path.packing is not None}

    def start(self, *, once: bool) -> None:
        """Starts all lanes; with `once`, each ends when it has read what is there now."""
        with self._lock:
            self._once = once
            self._stale = set(self._paths)
        self.apply()
        if not once:
            self._watch = threading.Thread(target=self._restart_failed, name="headgate-lanes", daemon=True)
            self._watch.start()

    def apply(self) -> None:
        """Starts the lanes that are new, and starts those again that must carry more. Not under anybody's lock."""
        if self._once is None:
            return
        with self._lock:
            for name in sorted(self._stale):
                path = self._paths[name]
                if path.lane is not None:
                    path.lane.stop()
                path.lane = self._made(path)
                path.lane.start(once=self._once, every=self._every)
            self._stale.clear()

    @property
    def active(self) -> bool:
        return any(path.lane is not None and path.lane.active for path in self._paths.values())

    @property
    def coming(self) -> bool:
        """Whether some lane is about to bring rows."""
        return any(path.lane is not None and path.lane.coming for path in list(self._paths.values()))

    @property
    def failure(self) -> Exception | None:
        return self._failed

    def fail(self, error: Exception) -> None:
        """Something else went wrong for good."""
        self._failed = self._failed or error

    def wait(self) -> None:
        """Waits until all lanes have ended; used with `once`."""
        tries = 0
        for path in list(self._paths.values()):
            while path.lane is not None:
                path.lane.wait()
                error = path.lane.failure
                if error is None:
                    break
                tries += 1
                if tries > _RETRIES or not _passing(error):
                    self._failed = _cause(error, self._checkpoint.uri)
                    return
                with self._lock:
                    self._stale.add(path.name)
                self.apply()

    def stop(self) -> None:
        self._stopped = True
        with self._lock:
            for path in self._paths.values():
                if path.lane is not None:
                    path.lane.stop()
        if self._watch is not None:
            self._watch.join()

    def _restart_failed(self) -> None:
        """Starts a lane again whose epoch failed for a passing reason, such as a worker that was killed."""
        tries, last = 0, time.monotonic()
        while not self._stopped and self._failed is None:
            time.sleep(0.1)
            for path in list(self._paths.values()):
                error = path.lane.failure if path.lane is not None and not path.lane.active else None
                if error is None or self._stopped:
                    continue
                if time.monotonic() - last > _CALM:
                    tries = 0
                tries, last = tries + 1, time.monotonic()
                if tries > _RETRIES or not _passing(error):
                    self._failed = _cause(error, self._checkpoint.uri)
                    return
                with self._lock:
                    self._stale.add(path.name)
                self.apply()

    def _lane_of(self, stream: str) -> str | None:
        return next((path.name for path in self._paths.values() if stream in path.streams), None)

    def _assign(self, new: list[str]) -> None:
        if not new:
            return
        together = not self._paths and self._once is None
        groups = [new] if together else [[stream] for stream in new]
        for group in groups:
            name = "main" if together else f"lane-{len(self._paths)}-{group[0]}"
            self._paths[name] = _Path(name, group, {})
        noted = {path.name: path.streams for path in self._paths.values()}
        self._checkpoint.write("lanes.json", json.dumps(noted).encode())

    def _plan(self, path: _Path, wanted: dict[str, RequiredColumns]) -> None:
        if path.packing is not None and all(path.carried[name].covers(wanted[name]) for name in path.streams):
            return
        for group in self._groups(path):
            # Streams that are read as one carry the same.
            shared = RequiredColumns()
            for name in group:
                for each in (path.carried.get(name, RequiredColumns()), wanted[name]):
                    shared = RequiredColumns(shared.columns | each.columns, shared.foreign | each.foreign)
            path.carried.update(dict.fromkeys(group, shared))
        path.version += 1
        flaws = {
            name: flaw for group in self._groups(path) for name in group if (flaw := self._open(group).flaw) is not None
        }
        path.packing = Packing(
            {name: _columns(self._streams[name], path.carried[name]) for name in path.streams},
            flaws,
            {name: _computed(path.carried[name]) for name in path.streams},
        )
        self._stale.add(path.name)

    def _groups(self, path: _Path) -> list[list[str]]:
        """The streams of a lane, those together that can be read as one source, in an order that restarts keep."""
        groups: dict[object, list[str]] = {}
        for name in path.streams:
            stream = self._streams.get(name)
            key = self._sources.group_key(stream) if stream is not None and name not in self._frames else None
            groups.setdefault(key if key is not None else name, []).append(name)
        return list(groups.values())

    def _open(self, group: list[str]) -> SourceRows:
        for name in group:
            if name not in self._streams:
                raise LaneError(
                    f"stream {name} was read by the script that wrote this checkpoint and is not declared any more;"
                    " declare it again, or give another checkpoint"
                )
        key = tuple(group)
        if key not in self._rows:
            frame = self._frames.get(group[0])
            streams = [self._streams[name] for name in group]
            self._rows[key] = SourceRows(frame) if frame is not None else self._sources.open(streams)
        return self._rows[key]

    def _made(self, path: _Path) -> Lane:
        packing = path.packing
        assert packing is not None
        frames = []
        for group in self._groups(path):
            rows = self._open(group)
            tag = None
            if rows.member is not None:
                numbers = ", ".join(str(packing.streams.index(name)) for name in group)
                tag = f"element_at(array({numbers}), {rows.member} + 1)"
            frames.append(rows.frame.selectExpr(*packing.select(group[0], tag)))
        key = path.key
        return Lane(
            path.name,
            frames,
            packing,
            lambda lane, batch, frame: self._deliver(lane.name, key, batch, frame),
            f"{self._checkpoint.uri.rstrip('/')}/lanes/{path.name}",
        )


def _columns(stream: Stream, carried: RequiredColumns) -> list[tuple[str, pa.DataType, str | None]]:
    """The declared columns of a stream; those that nobody reads stay behind."""
    schema: Schema = stream.schema
    columns: list[tuple[str, pa.DataType, str | None]] = []
    for place, column in enumerate(schema.fields):
        quoted = f"`{column.name.replace('`', '``')}`"
        columns.append((column.name, column.type, quoted if place in carried.columns else None))
    return columns


def _computed(carried: RequiredColumns) -> list[tuple[str, pa.DataType, str]]:
    """What Catalyst computes of a stream's rows."""
    return [(key, foreign.type, foreign.sql) for key, foreign in sorted(carried.foreign.items())]


def _noted(checkpoint: Checkpoint) -> dict[str, list[str]]:
    text = checkpoint.text("lanes.json")
    return {} if text is None else json.loads(text)


def _passing(error: Exception) -> bool:
    """Whether the same epoch may well succeed when it is done again: a worker or an executor was lost."""
    text = str(error)
    signs = ("Python worker exited unexpectedly", "ExecutorLost", "Connection reset", "Broken pipe", "EOFException")
    return any(sign in text for sign in signs) and "CheckpointError" not in text


def _cause(error: Exception, checkpoint: str) -> Exception:
    """The error in one line: what was raised in the epoch rather than how Spark wraps it."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line.startswith("headgate.") and "Error: " in line]
    if told:
        kind, _, said = told[-1].partition("Error: ")
        return CheckpointError(said) if kind.endswith(".Checkpoint") else LaneError(said)
    for sign in _UNWRITABLE:
        if sign in text:
            return CheckpointError(
                f"checkpoint {checkpoint}: Spark cannot write its log of the lane: {sign}; nothing is lost: start again"
                " when the folder can be written"
            )
    # What Python raised last in the epoch, if it was there; the rest of its traceback tells users nothing.
    found = re.findall(r"(?m)^(?:: )?[\w.$]+(?:Error|Exception): (.+)$", text.partition("=== Streaming Query ===")[0])
    raised = [line for line in found if not line.startswith("An error occurred while calling")]
    said = raised[-1] if raised else re.sub(r"^\[STREAM_FAILED\].*? terminated with exception: ", "", lines[0])
    return LaneError(re.split(r"\.? SQLSTATE:", said)[0])
