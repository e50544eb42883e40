"""The lanes of an engine: which lane reads which stream, the columns it carries, and starting, restarting, stopping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from headgate.graph.queries import Query, Stream
from headgate.graph.types import Schema
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.epoch_failures import LaneError
from headgate.spark.lane import Lane, LaneBatch
from headgate.spark.lane_log import LaneLog
from headgate.spark.lane_notes import note, noted
from headgate.spark.pace import LatencyTarget, Pace
from headgate.spark.packing import Packing
from headgate.spark.required_columns import RequiredColumns, required_columns
from headgate.spark.source_rows import SourceRows, StreamOpener
from headgate.spark.turns import groups_by_class, streams_of
from headgate.spark.valid_text import valid_text


@dataclass
class _PlannedLane:
    """A lane as planned: its streams in order, the columns that it carries of each, and the lane that runs, if any.

    `ended`: it has read all that was available. `prepared` is what the running lane adds to the packed rows. `weight`:
    the priority of the highest class that reads its streams now, and `rank` of those that may; `readers`: the running
    queries that do.
    """

    name: str
    streams: list[str]
    carried: dict[str, RequiredColumns]
    version: int = 0
    packing: Packing | None = None
    lane: Lane | None = None
    ended: bool = False
    prepared: object = None
    weight: float = 1.0
    rank: float = 1.0
    readers: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class SavedLanes:
    """A saved state of the planning: for each lane the columns it carries, its version and packing; and the streams."""

    lanes: Mapping[str, tuple[dict[str, RequiredColumns], int, Packing | None]]
    streams: Mapping[str, Stream]


class Preparation(Protocol):
    """What is added to the packed rows of a lane, so that its frame has the answers of the hosts."""

    def prepare(self, packed: Any, packing: Packing) -> Any:
        """The frame of answers."""
        ...

    def conditions(self, packed: Any, packing: Packing) -> object:
        """What `prepare` depends on: equal objects mean equal frames."""
        ...


class Lanes:
    """The lanes of an engine. Streams that the first queries read share one lane per class (see `groups_by_class`); so
    do streams that later queries need. Lanes below the highest class take few rows at a time: a long epoch for them
    would delay the highest class.

    Used by one thread. Spark's own checkpoints of the lanes are in `log`; the checkpoint has a list of the streams that
    each lane reads: after a restart Spark needs the same sources in the same order.

    - `deliver` and `ended`: see `Lane`; `refuse` is called with a closed lane before it is stopped, and rejects its
      batches that still wait
    - `every`: seconds between two polls of the sources
    - `pace`: the pauses after epochs. Lanes with a stream that limits what a trigger reads are not paused: more rows
      may be waiting than one trigger takes
    """

    def __init__(
        self,
        sources: StreamOpener,
        checkpoint: Checkpoint,
        log: LaneLog,
        frames: Mapping[str, Any],
        deliver: Callable[[LaneBatch], None],
        ended: Callable[[Lane, Exception | None], None],
        refuse: Callable[[Lane], None],
        every: float = 0.0,
        pace: Pace | None = None,
    ) -> None:
        self._sources = sources
        self._checkpoint = checkpoint
        self._log = log
        self._frames = frames
        self._deliver = deliver
        self._ended = ended
        self._refuse = refuse
        self._every = every
        self._pace = pace
        self._planned: dict[str, _PlannedLane] = {}
        self._streams: dict[str, Stream] = {}
        self._rows: dict[tuple[str, ...], SourceRows] = {}
        self._once: bool | None = None
        for name, streams in noted(checkpoint).items():
            self._planned[name] = _PlannedLane(name, streams, {})

    def plan(
        self, streams: Mapping[str, Stream], queries: Iterable[Query], running: Iterable[Query]
    ) -> dict[str, Packing]:
        """Plans the lanes for these queries; returns all packings. Running lanes change only in `apply`, except for
        their weights and pace, which the queries that are `running` set: others wait for nothing."""
        self._streams.update(streams)
        queries = list(queries)
        wanted = required_columns(queries)
        self._assign([name for name in wanted if not self._lane_of(name)], queries)
        self._rank(queries)
        self._weigh(list(running))
        for planned in self._planned.values():
            self._plan_lane(planned, {name: wanted.get(name, RequiredColumns()) for name in planned.streams})
        return {planned.key: planned.packing for planned in self._planned.values() if planned.packing is not None}

    def saved(self) -> SavedLanes:
        """The lanes as planned now, for `restore`."""
        lanes = {
            name: (dict(planned.carried), planned.version, planned.packing) for name, planned in self._planned.items()
        }
        return SavedLanes(lanes, dict(self._streams))

    def restore(self, saved: SavedLanes) -> None:
        """Undoes the planning since `saved`, after a failure: new lanes are stopped and removed. The others continue as
        before after the next `apply`."""
        gone = [name for name in self._planned if name not in saved.lanes]
        for name in gone:
            lane = self._planned.pop(name).lane
            if lane is not None:
                self._stop(lane)
        for name, (carried, version, packing) in saved.lanes.items():
            planned = self._planned[name]
            planned.carried, planned.version, planned.packing = carried, version, packing
        self._streams = dict(saved.streams)
        self._rows = {group: rows for group, rows in self._rows.items() if all(name in self._streams for name in group)}
        if gone:
            self._note()

    def start(self, preparation: Preparation, *, once: bool) -> None:
        """Starts all lanes; with `once`, each ends when it has read all rows that are available now."""
        self._once = once
        if once:
            # Opened again without limits.
            self._rows.clear()
        self.apply(preparation)

    def apply(self, preparation: Preparation) -> None:
        """Starts new lanes, and restarts those that must carry more columns or whose preparation has changed."""
        if self._once is None:
            return
        for planned in self._planned.values():
            if planned.ended:
                continue
            lane, packing = planned.lane, planned.packing
            assert packing is not None
            packed = self._packed(planned, packing)
            prepared = preparation.conditions(packed, packing)
            if lane is not None and lane.key == planned.key and not lane.careful and planned.prepared == prepared:
                continue
            self._restart(planned, preparation.prepare(packed, packing), False)
            planned.prepared = prepared

    def restart(self, name: str, preparation: Preparation, *, careful: bool) -> None:
        """Restarts a lane whose epoch failed; a careful lane delivers packed rows."""
        planned = self._planned[name]
        assert planned.packing is not None
        packed = self._packed(planned, planned.packing)
        if careful:
            self._restart(planned, packed, True)
        else:
            planned.prepared = preparation.conditions(packed, planned.packing)
            self._restart(planned, preparation.prepare(packed, planned.packing), False)

    def running(self, lane: Lane) -> bool:
        """Whether it is the current lane of its name. A lane that a failed change began has no name any more."""
        planned = self._planned.get(lane.name)
        return planned is not None and planned.lane is lane and not planned.ended

    def end(self, lane: Lane) -> None:
        """The lane has ended, because it has read all that was available or because it failed."""
        self._planned[lane.name].ended = True

    @property
    def all_ended(self) -> bool:
        """Whether there are lanes and all have ended: an engine without streams waits for the first."""
        return bool(self._planned) and all(planned.ended for planned in self._planned.values())

    @property
    def delivering(self) -> bool:
        """Whether some lane is about to deliver rows."""
        return any(planned.lane is not None and planned.lane.delivering for planned in self._planned.values())

    def stop(self) -> None:
        """Stops all lanes permanently."""
        self._once = None
        for planned in self._planned.values():
            lane, planned.lane = planned.lane, None
            if lane is not None:
                self._stop(lane)

    def _stop(self, lane: Lane) -> None:
        lane.close()
        self._refuse(lane)
        lane.stop()

    def _restart(self, planned: _PlannedLane, frame: Any, careful: bool) -> None:
        assert self._once is not None
        if planned.lane is not None:
            self._stop(planned.lane)
        folders = self._folders(planned)
        place = self._log.place(planned.name)
        pace = None if self._limited(planned) else self._pace
        if pace is not None:
            pace.forget(planned.name)
        known = (self._deliver, self._ended, folders, pace)
        planned.lane = Lane(planned.name, planned.key, frame, careful, place, *known)
        planned.lane.start(once=self._once, every=self._every)

    def _limited(self, planned: _PlannedLane) -> bool:
        return any(_limits(self._streams[name]) for name in planned.streams)

    def _lane_of(self, stream: str) -> str | None:
        return next((planned.name for planned in self._planned.values() if stream in planned.streams), None)

    def _assign(self, new: list[str], queries: list[Query]) -> None:
        if not new:
            return
        for group in groups_by_class(new, queries):
            # Part of a path, which the name of a stream must not leave.
            stream = re.sub(r"\W", "_", group.streams[0])
            name = f"lane-{len(self._planned)}-{stream}" if self._planned else "main"
            self._planned[name] = _PlannedLane(name, [*group.streams], {})
        self._note()

    def _note(self) -> None:
        note(self._checkpoint, {planned.name: planned.streams for planned in self._planned.values()})

    def _readers(self, queries: list[Query]) -> dict[str, list[Query]]:
        """The queries that read each lane."""
        return {
            planned.name: [query for query in queries if not set(planned.streams).isdisjoint(streams_of(query))]
            for planned in self._planned.values()
        }

    def _rank(self, queries: list[Query]) -> None:
        for name, found in self._readers(queries).items():
            self._planned[name].rank = max((query.cls.priority for query in found), default=1)

    def _weigh(self, queries: list[Query]) -> None:
        """Sets the weights of the lanes, and their pace, by the classes and specs of the queries that read them."""
        readers = self._readers(queries)
        for planned in self._planned.values():
            planned.weight = max((query.cls.priority for query in readers[planned.name]), default=1)
        highest = self._highest_weight
        for planned in self._planned.values():
            asked = [(q.spec.latency / 1e6, q.name) for q in readers[planned.name] if q.spec.latency is not None]
            target = LatencyTarget(*min(asked)) if asked else None
            tighter = self._pace is not None and self._pace.arrange(planned.name, planned.weight / highest, target)
            known, planned.readers = planned.readers, frozenset(query.name for query in readers[planned.name])
            if planned.lane is not None and (tighter or planned.readers - known):
                planned.lane.hurry()

    @property
    def _highest_weight(self) -> float:
        return max((planned.weight for planned in self._planned.values()), default=1.0)

    def weights(self, lanes: Iterable[str]) -> dict[str, float]:
        """The weights of some lanes; one that a failed change began has the lowest."""
        return {name: self._planned[name].weight if name in self._planned else 1.0 for name in lanes}

    def _plan_lane(self, planned: _PlannedLane, wanted: dict[str, RequiredColumns]) -> None:
        if planned.packing is not None and all(planned.carried[name].covers(wanted[name]) for name in planned.streams):
            return
        for group in self._groups(planned):
            # Streams that are read as one source carry the same columns.
            shared = RequiredColumns()
            for name in group:
                for each in (planned.carried.get(name, RequiredColumns()), wanted[name]):
                    shared = RequiredColumns(shared.columns | each.columns, shared.foreign | each.foreign)
            if not shared.columns and self._open(group).flaw is not None:
                # Spark returns the text of malformed rows only along with a column: `SELECT count(*)` needs one too.
                shared = RequiredColumns({_cheapest(self._streams[group[0]].schema)}, shared.foreign)
            planned.carried.update(dict.fromkeys(group, shared))
        planned.version += 1
        rows = {name: self._open(group) for group in self._groups(planned) for name in group}
        flaws = {name: each.flaw for name, each in rows.items() if each.flaw is not None}
        planned.packing = Packing(
            {name: _columns(self._streams[name], planned.carried[name], rows[name].valid) for name in planned.streams},
            flaws,
            {name: _computed(planned.carried[name]) for name in planned.streams},
        )

    def _groups(self, planned: _PlannedLane) -> list[list[str]]:
        """The streams of a lane, grouped by the source that reads them, in an order that restarts keep."""
        groups: list[list[str]] = []
        by_key: dict[object, list[list[str]]] = {}
        for name in planned.streams:
            stream = self._streams.get(name)
            key = self._sources.group_key(stream) if stream is not None and name not in self._frames else None
            alike = by_key.setdefault(name if key is None else key, [])
            group = next((group for group in alike if not self._overlaps(name, group)), None)
            if group is None:
                group = []
                alike.append(group)
                groups.append(group)
            group.append(name)
        return groups

    def _overlaps(self, name: str, group: list[str]) -> bool:
        return any(self._sources.overlap(self._streams[name], self._streams[other]) for other in group)

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
            streams = [self._limited_stream(name) for name in group]
            self._rows[key] = SourceRows(frame) if frame is not None else self._sources.open(streams)
        return self._rows[key]

    def _limited_stream(self, name: str) -> Stream:
        """The stream, with a limit on the rows of a trigger if its lane is below the highest class."""
        stream, lane = self._streams[name], self._lane_of(name)
        highest = max((planned.rank for planned in self._planned.values()), default=1.0)
        if self._once or lane is None or self._planned[lane].rank == highest or _limits(stream):
            return stream
        return replace(stream, options={**stream.options, **self._sources.limit(stream)})

    def _packed(self, planned: _PlannedLane, packing: Packing) -> Any:
        """The streaming frame of all rows of a lane, packed."""
        union: Any = None
        for group in self._groups(planned):
            rows = self._open(group)
            tag = None
            if rows.member is not None:
                numbers = ", ".join(str(packing.streams.index(name)) for name in group)
                tag = f"element_at(array({numbers}), {rows.member} + 1)"
            frame = rows.frame.selectExpr(*packing.select(group[0], tag))
            union = frame if union is None else union.unionByName(frame)
        return union

    def _folders(self, planned: _PlannedLane) -> list[str] | None:
        """The local folders from which all rows of a lane come; None if some come from elsewhere."""
        found: list[str] = []
        for group in self._groups(planned):
            folders = self._open(group).folders
            if folders is None:
                return None
            found += folders
        return found


def _limits(stream: Stream) -> bool:
    """Whether the user has limited what a trigger reads."""
    return any(option.lower().endswith("pertrigger") for option in stream.options)


def _columns(stream: Stream, carried: RequiredColumns, valid: bool = True) -> list[tuple[str, pa.DataType, str | None]]:
    """The declared columns of a stream; columns that no query reads are not carried. `valid`: see `SourceRows`."""
    schema: Schema = stream.schema
    columns: list[tuple[str, pa.DataType, str | None]] = []
    for place, column in enumerate(schema.fields):
        quoted = f"`{column.name.replace('`', '``')}`"
        sql = quoted if valid else valid_text(quoted, column.type)
        columns.append((column.name, column.type, sql if place in carried.columns else None))
    return columns


def _cheapest(schema: Schema) -> int:
    """The column that is carried where no query reads any: the first that is not nested."""
    return next((place for place, type_ in enumerate(schema.types) if not pa.types.is_nested(type_)), 0)


def _computed(carried: RequiredColumns) -> list[tuple[str, pa.DataType, str]]:
    """The columns that Catalyst computes from a stream's rows."""
    return [(key, foreign.type, foreign.sql) for key, foreign in sorted(carried.foreign.items())]
