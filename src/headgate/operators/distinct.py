"""Each distinct row once, remembered until the watermark passes it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.expressions.aggregates.grouping import Groups, Reduction, Rounds
from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flat_types, flatten, rebuild
from headgate.graph.operators import Distinct
from headgate.operators.batch import Batch
from headgate.operators.columns import part_of, record
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher
from headgate.operators.registry import implements
from headgate.operators.runs import Runs
from headgate.operators.settings import Settings
from headgate.operators.windows import late_before, times_or_end


@implements(Distinct)
class LiveDistinct:
    """Emits a row when it is first seen. Rows behind the watermark are dropped and counted.

    A row without a time is never late and never forgotten.
    """

    def __init__(self, node: Distinct, settings: Settings) -> None:
        self._time = node.time
        self._names = node.schema.names
        self._types = list(node.schema.types)
        flat = flat_types(self._types)
        self._matcher = Matcher(flat, range(len(flat)), nulls_equal=True)
        self._flat_names = [f"c{i}" for i in range(len(flat))]
        self._runs = Runs(flagged_are_gone=False)
        self._late = 0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        times = times_or_end(evaluate(self._time, batch))
        columns = batch.rows.columns[: len(self._types)]
        in_time = times >= late_before(self._time, batch.watermark)
        if not in_time.all():
            self._late += int((~in_time).sum())
            columns = [c.filter(pa.array(in_time)) for c in columns]
            times = times[in_time]
        if not len(times):
            return []
        groups = Groups(flatten(columns), len(times))
        flat, ((first,),) = groups.reduce([_first_place(len(times))])
        times = times[first.to_numpy()]
        hashes = hashed(flat, len(times))
        new = np.ones(len(times), bool)
        for run in self._runs:
            for rows, _ in self._matcher.pairs(run, flat, hashes):
                new[rows] = False
        if not new.any():
            return []
        if not new.all():
            flat = [c.filter(pa.array(new)) for c in flat]
        self._runs.push(pa.Table.from_arrays(flat, names=self._flat_names), hashes[new], times[new])
        count = int(new.sum())
        made = record(rebuild(flat, self._types), self._names, count)
        return [Batch(made, part_of(batch.arrival, count))]

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self._runs.forget(watermark)
        return [], watermark

    def snapshot(self) -> Snapshot:
        parts, meta = self._runs.parts("rows")
        return Snapshot(parts, {**meta, "late": self._late})

    def restore(self, snapshot: Snapshot) -> None:
        self._runs.restore("rows", snapshot.parts, snapshot.meta)
        self._late = snapshot.meta["late"]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        return {"rows": StateKeys(tuple(range(len(self._flat_names))), tuple(self._types))}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        tables = run_tables("rows", snapshot.parts, meta, gone=False)
        return StateRows({"rows": tables}, lowest={"bound": meta["bound"]}, counts={"late": meta["late"]})

    def closed(self, rows: StateRows) -> Snapshot:
        parts, meta = run_parts("rows", rows.tables["rows"], rows.lowest["bound"])
        return Snapshot(parts, {**meta, **rows.counts})

    @property
    def state_rows(self) -> int:
        return self._runs.rows

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes

    @property
    def late_rows(self) -> int:
        return self._late


def _first_place(rows: int) -> Rounds:
    """The first row of each group."""
    return (yield [Reduction(pa.array(np.arange(rows)), "min")])
