"""Joins two streams on equal keys within a bound of time: symmetric, each row meets the rows of the other side once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.operators import Join
from headgate.graph.operators.operator import LEFT, RIGHT
from headgate.operators.batch import FOREVER, NEVER, Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import select
from headgate.operators.join_side import Arrived, JoinSide
from headgate.operators.registry import implements
from headgate.operators.runs import Run
from headgate.operators.settings import Settings

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def shifted(watermark: int, by: int | None) -> int:
    """A watermark moved by a duration; with an open bound (None) it is NEVER until the end of the stream.

    >>> shifted(10, 5), shifted(10, None) == NEVER, shifted(FOREVER, None) == FOREVER
    (15, True, True)
    """
    if watermark in (NEVER, FOREVER):
        return watermark
    return NEVER if by is None else watermark + by


@implements(Join)
class LiveJoin:
    """Rows wait on their side until the watermark of the other side is past everything they could match.

    A stored row's flag says that it has had a partner (or was emitted without one). Outer and anti joins emit rows
    without partners when no partner can come any more; a semi join emits a left row with its first partner.
    Rows with a null in a key, or without an event time, never have partners. Late rows (event time at or
    before the watermark when they arrived) are dropped and counted.
    """

    def __init__(self, node: Join, settings: Settings) -> None:
        self._how = node.how
        self._low, self._high = node.bound.low, node.bound.high
        self._residual = node.residual
        left, right = node.left.schema, node.right.schema
        self._sides = (
            JoinSide(len(left), left.names, node.left_keys, node.bound.left),
            JoinSide(len(right), right.names, node.right_keys, node.bound.right),
        )
        self._types = (left.types, right.types)
        self._pair_names = [f"l{i}" for i in range(len(left))] + [f"r{i}" for i in range(len(right))]
        self._names = node.schema.names
        # Which sides emit rows without partners, and for which sides it matters that a row had one.
        self._alone = (node.how in ("left", "full", "anti"), node.how in ("right", "full"))
        self._flagged = (self._alone[LEFT] or node.how == "semi", self._alone[RIGHT])
        # The arrival of the newest rows, and of the rows that cause the current results.
        self._newest = self._cause = 0.0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        if batch.arrival.count:
            # Matching rows of the other side waited for this batch: their results count as arrived with it.
            self._cause = batch.arrival.mean
            self._newest = max(self._newest, self._cause)
        side = self._sides[port]
        arrived, alone = side.read(batch)
        out: list[Batch] = []
        if self._alone[port] and alone.num_rows:
            out += self._without_partner(port, alone.columns)
        matched = np.zeros(len(arrived), bool)
        if len(arrived):
            for run in self._sides[1 - port].runs:
                out += self._meet(port, arrived, run, matched)
            out += self._store(port, arrived, matched)
        return out

    def _meet(self, port: int, arrived: Arrived, run: Run, matched: Flags) -> list[Batch]:
        """Joins new rows with a run of the other side."""
        out: list[Batch] = []
        other = self._sides[1 - port]
        for probes, rows in other.matcher.pairs(run, arrived.keys, arrived.hashes):
            new, old = arrived.times[probes], run.times[rows]
            distance = old - new if port == LEFT else new - old
            inside = np.ones(len(probes), bool)
            if self._low is not None:
                inside &= distance >= self._low
            if self._high is not None:
                inside &= distance <= self._high
            if self._how in ("semi", "anti"):
                # A left row that has had a partner needs no other.
                inside &= ~(matched[probes] if port == LEFT else run.flags[rows])
            if not inside.all():
                probes, rows = probes[inside], rows[inside]
            if not len(probes):
                continue
            probes, rows, pairs = self._pairs(port, arrived, run, probes, rows)
            if self._flagged[port]:
                matched[probes] = True
            if pairs is not None and len(probes):
                out.append(self._batch(pairs, len(probes)))
            elif self._how in ("semi", "anti") and port == RIGHT and len(rows):
                rows = np.unique(rows)
                if self._how == "semi":
                    out.append(self._batch(self._sides[LEFT].columns(run.table, rows), len(rows)))
            if self._flagged[1 - port]:
                run.flag(rows)
        return out

    def _pairs(
        self, port: int, arrived: Arrived, run: Run, probes: Ints, rows: Ints
    ) -> tuple[Ints, Ints, Sequence[pa.Array] | None]:
        """The pairs that the residual condition lets through, and their columns if pairs are emitted."""
        one_sided = self._how in ("semi", "anti")
        if one_sided and not self._residual:
            return probes, rows, None
        at = pa.array(probes)
        new = [c.take(at) for c in arrived.rows.columns]
        old = self._sides[1 - port].columns(run.table, rows)
        columns = [*new, *old] if port == LEFT else [*old, *new]
        if self._residual:
            batch = Batch(record(columns, self._pair_names, len(probes)), Arrival.at(0.0, len(probes)))
            place = pa.array(np.arange(len(probes)))
            batch.rows = batch.rows.append_column("place", place)
            chosen = select(batch, self._residual).materialized().rows
            kept = chosen.column(chosen.num_columns - 1).to_numpy()
            probes, rows = probes[kept], rows[kept]
            columns = chosen.columns[:-1]
        return probes, rows, None if one_sided else columns

    def _store(self, port: int, arrived: Arrived, matched: Flags) -> list[Batch]:
        """Stores new rows for later matches; returns at once the rows that nothing later can match."""
        out: list[Batch] = []
        needed: Flags | None = None
        if port == LEFT and self._how in ("semi", "anti"):
            if self._how == "semi" and matched.any():
                rows = arrived.rows.filter(pa.array(matched))
                out.append(self._batch(rows.columns, rows.num_rows))
            needed = ~matched
        bound = self._bound(port)
        past = arrived.times < bound
        if past.any():
            if self._alone[port]:
                rows = arrived.rows.filter(pa.array(past & ~matched))
                out += self._without_partner(port, rows.columns)
            needed = ~past if needed is None else needed & ~past
        self._sides[port].keep(arrived, matched, needed)
        return out

    def _bound(self, port: int) -> int:
        """Rows of a side with event times before this can have no further match."""
        if port == LEFT:
            return shifted(self._sides[RIGHT].watermark, None if self._high is None else -self._high)
        return shifted(self._sides[LEFT].watermark, self._low)

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self._sides[port].watermark = max(self._sides[port].watermark, watermark)
        self._cause = self._newest
        out: list[Batch] = []
        for at in (LEFT, RIGHT):
            bound = self._bound(at)
            if bound == NEVER:
                continue
            runs = self._sides[at].runs
            if self._alone[at]:
                for run, rows in runs.due(bound):
                    out += self._without_partner(at, self._sides[at].columns(run.table, rows))
                    run.flag(rows)
            runs.forget(bound)
        return out, self._passed()

    def _passed(self) -> int:
        """The output's watermark: no later result has an event time, left or right, before it."""
        left, right = self._sides[LEFT].watermark, self._sides[RIGHT].watermark
        of_left = min(left, self._bound(LEFT))
        if self._how in ("semi", "anti"):
            return of_left
        return min(of_left, right, self._bound(RIGHT))

    def _without_partner(self, port: int, columns: Sequence[pa.Array]) -> list[Batch]:
        rows = len(columns[0])
        if not rows:
            return []
        if self._how == "anti":
            return [self._batch(columns, rows)]
        nulls = [pa.nulls(rows, t) for t in self._types[1 - port]]
        return [self._batch([*columns, *nulls] if port == LEFT else [*nulls, *columns], rows)]

    def _batch(self, columns: Sequence[pa.Array], rows: int) -> Batch:
        return Batch(record(columns, self._names, rows), Arrival.at(self._cause, rows))

    def snapshot(self) -> Snapshot:
        parts: dict[str, pa.Table] = {}
        meta: dict[str, object] = {"newest": self._newest}
        for name, side in zip(("left", "right"), self._sides, strict=True):
            own, more = side.runs.parts(name)
            parts |= own
            meta[name] = {**more, "mark": side.watermark, "late": side.late}
        return Snapshot(parts, meta)

    def restore(self, snapshot: Snapshot) -> None:
        self._newest = snapshot.meta["newest"]
        for name, side in zip(("left", "right"), self._sides, strict=True):
            own = snapshot.meta[name]
            side.runs.restore(name, snapshot.parts, own)
            side.watermark, side.late = own["mark"], own["late"]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        return {name: side.state_keys for name, side in zip(("left", "right"), self._sides, strict=True)}

    def opened(self, snapshot: Snapshot) -> StateRows:
        sides = {name: snapshot.meta[name] for name in ("left", "right")}
        return StateRows(
            {name: run_tables(name, snapshot.parts, meta, gone=False) for name, meta in sides.items()},
            {name: meta["mark"] for name, meta in sides.items()},
            {"newest": snapshot.meta["newest"]},
            {name: meta["bound"] for name, meta in sides.items()},
            {name: meta["late"] for name, meta in sides.items()},
        )

    def closed(self, rows: StateRows) -> Snapshot:
        parts: dict[str, pa.Table] = {}
        meta: dict[str, object] = {**rows.highest}
        for name in ("left", "right"):
            own, more = run_parts(name, rows.tables[name], rows.lowest[name])
            parts |= own
            meta[name] = {**more, "mark": rows.progress[name], "late": rows.counts[name]}
        return Snapshot(parts, meta)

    @property
    def state_rows(self) -> int:
        return sum(side.runs.rows for side in self._sides)

    @property
    def state_bytes(self) -> int:
        return sum(side.runs.nbytes for side in self._sides)

    @property
    def late_rows(self) -> int:
        return sum(side.late for side in self._sides)
