"""One side of a join: reading its batches, and the rows that wait for partners."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.hashing import Hashes, hashed
from headgate.expressions.keys import flat_types, flatten
from headgate.graph.expressions import Column, Expr
from headgate.operators.batch import NEVER, Batch
from headgate.operators.division import StateKeys
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher
from headgate.operators.runs import Runs
from headgate.operators.windows import late_before, microseconds

Ints = npt.NDArray[np.int64]


class Arrived:
    """New rows of one side, sorted by the hashes of their keys."""

    def __init__(self, rows: pa.RecordBatch, keys: list[pa.Array], hashes: Hashes, times: Ints) -> None:
        order = np.argsort(hashes)
        at = pa.array(order)
        self.rows = rows.take(at)
        self.keys = [k.take(at) for k in keys]
        self.hashes = hashes[order]
        self.times = times[order]

    def __len__(self) -> int:
        return len(self.times)


class JoinSide:
    """The keys, the event time and the state of the left or the right input."""

    def __init__(self, width: int, names: Sequence[str], keys: Sequence[Expr], time: Expr) -> None:
        self._width = width
        self._names = list(names)
        self._exprs = [time, *keys]
        types = flat_types([k.type for k in keys])
        # A key that is a column of the row, and already flat, is not stored twice.
        self._kept = [k.index if isinstance(k, Column) and _is_flat_key(k.type) else None for k in keys]
        self._plain = None not in self._kept
        places = [k for k in self._kept if k is not None] if self._plain else range(width, width + len(types))
        # A row with a null key is never matched; a null inside a struct equals another null there.
        self.matcher = Matcher(types, places, nulls_equal=any(pa.types.is_struct(k.type) for k in keys))
        self.state_keys = StateKeys(tuple(places), tuple(k.type for k in keys))
        self.runs = Runs(flagged_are_gone=False)
        self.watermark = NEVER
        self.late = 0

    def read(self, batch: Batch) -> tuple[Arrived, pa.RecordBatch]:
        """The rows that are in time: those that may have partners, and those that cannot (a null key or time)."""
        batch = batch.materialized()
        time, *keys = (evaluate(e, batch) for e in self._exprs)
        rows = pa.RecordBatch.from_arrays(batch.rows.columns[: self._width], names=self._names)
        times, valid = microseconds(time)
        late = times < late_before(self._exprs[0], batch.watermark)
        if valid is not None:
            late &= valid.to_numpy(zero_copy_only=False)
        if late.any():
            self.late += int(late.sum())
            keep = pa.array(~late)
            rows, keys, times = rows.filter(keep), [k.filter(keep) for k in keys], times[~late]
            valid = None if valid is None else valid.filter(keep)
        flat = flatten(keys)
        able = valid
        for key in keys:
            if key.null_count:
                able = pc.is_valid(key) if able is None else pc.and_(able, pc.is_valid(key))
        if able is None:
            return Arrived(rows, flat, hashed(flat, len(times)), times), rows.slice(0, 0)
        alone = rows.filter(pc.invert(able))
        flat = [k.filter(able) for k in flat]
        times = times[able.to_numpy(zero_copy_only=False)]
        return Arrived(rows.filter(able), flat, hashed(flat, len(times)), times), alone

    def keep(self, arrived: Arrived, matched: npt.NDArray[np.bool_], needed: npt.NDArray[np.bool_] | None) -> None:
        """Stores rows that wait for partners; `needed`: which of them (None: all)."""
        columns = [*arrived.rows.columns, *(() if self._plain else arrived.keys)]
        table = pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        if needed is None or needed.all():
            self.runs.push(table, arrived.hashes, arrived.times, matched)
        elif needed.any():
            chosen = table.filter(pa.array(needed)).combine_chunks()
            self.runs.push(chosen, arrived.hashes[needed], arrived.times[needed], matched[needed])

    def columns(self, table: pa.Table, rows: Ints) -> list[pa.Array]:
        """The columns of some rows of a run, without the keys that are kept beside them."""
        at = pa.array(rows)
        return [table.column(i).chunk(0).take(at) for i in range(self._width)]


def _is_flat_key(type_: pa.DataType) -> bool:
    """Whether a column of a type is its own flat key."""
    return not (pa.types.is_nested(type_) or pa.types.is_floating(type_) or pa.types.is_null(type_))
