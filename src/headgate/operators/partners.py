"""Rows with their partners among rows that are looked up: what an inner, left, semi or anti join makes of the pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.expressions import Expr
from headgate.graph.operators import JoinKind
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import select

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Pairs = Iterable[tuple[Ints, pa.RecordBatch | pa.Table, Ints]]
"""Pairs with equal keys: positions among the rows, and, for each, the place of its partner among other rows."""


class Partners:
    """Joins rows with `width` columns with partners of these types. `residual` is over the columns of both."""

    def __init__(self, how: JoinKind, residual: Sequence[Expr], width: int, types: Sequence[pa.DataType]) -> None:
        self._how = how
        self._residual = residual
        self._width = width
        self._types = types
        self._names = [f"l{i}" for i in range(width)] + [f"r{i}" for i in range(len(types))] + ["place"]

    def joined(self, rows: pa.RecordBatch, pairs: Pairs) -> Iterator[tuple[list[pa.Array], int]]:
        """The results: their columns, and how many there are."""
        rows = rows.select(list(range(self._width)))
        matched = np.zeros(rows.num_rows, bool)
        for probes, others, found in pairs:
            columns, count = self._met(rows, probes, others, found, matched)
            if count:
                yield columns, count
        if self._how in ("semi", "anti"):
            yield from self._alone(rows, matched if self._how == "semi" else ~matched, [])
        elif self._how == "left":
            yield from self._alone(rows, ~matched, self._types)

    def _met(
        self, rows: pa.RecordBatch, probes: Ints, others: pa.RecordBatch | pa.Table, found: Ints, matched: Flags
    ) -> tuple[list[pa.Array], int]:
        """The pairs that meet the residual condition; marks in `matched` the rows that have a partner."""
        one_sided = self._how in ("semi", "anti")
        if not self._residual and one_sided:
            matched[probes] = True
            return [], 0
        left = rows.take(pa.array(probes))
        right = pa.Table.from_batches([others]) if isinstance(others, pa.RecordBatch) else others
        taken = right.select(list(range(len(self._types)))).take(pa.array(found)).combine_chunks()
        columns = [*left.columns, *(c.combine_chunks() if c.num_chunks != 1 else c.chunk(0) for c in taken.columns)]
        made = Batch(record([*columns, pa.array(probes)], self._names, len(probes)), Arrival.at(0.0, len(probes)))
        made = select(made, self._residual).materialized() if self._residual else made
        matched[made.rows.column(len(columns)).to_numpy()] = True
        return made.rows.columns[:-1], 0 if one_sided else made.rows.num_rows

    @staticmethod
    def _alone(
        rows: pa.RecordBatch, chosen: Flags, missing: Sequence[pa.DataType]
    ) -> Iterator[tuple[list[pa.Array], int]]:
        """Some rows, with nulls for the columns of partners."""
        count = int(chosen.sum())
        if count:
            rows = rows if count == len(chosen) else rows.filter(pa.array(chosen))
            yield [*rows.columns, *(pa.nulls(count, type_) for type_ in missing)], count
