"""Joins each row of a stream with a static table; the stream is the left side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk
from headgate.graph.operators import Lookup
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import evaluate, select
from headgate.operators.matching import Matcher
from headgate.operators.registry import implements
from headgate.operators.runs import Runs
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@implements(Lookup)
class LiveLookup(Stateless):
    """The table is indexed when the operator is created and when the table changes. Rows with a null in a key have no
    partner."""

    def __init__(self, node: Lookup, settings: Settings) -> None:
        if node.how not in ("inner", "left", "semi", "anti"):
            raise ValueError(
                f"a {node.how} join of a stream with table {node.table} would wait for the end of the stream; "
                "put the stream on the side that is kept"
            )
        if node.table not in settings.tables:
            known = ", ".join(sorted(settings.tables)) or "none"
            raise ValueError(f"the rows of table {node.table} were not given; tables given: {known}")
        self._how = node.how
        self._keys = node.keys
        self._residual = node.residual
        self._names = node.schema.names
        self._width = len(node.input.schema)
        self._types = node.table_schema.types
        self._pair_names = (
            [f"l{i}" for i in range(self._width)] + [f"r{i}" for i in range(len(self._types))] + ["place"]
        )
        self._node = node
        self._index(settings.tables[node.table])

    def renew(self, settings: Settings) -> None:
        """Replaces the rows of the table by the new ones; called while the operator does not run."""
        self._index(settings.tables[self._node.table])

    def _index(self, given: pa.Table) -> None:
        node = self._node
        self._table, keys = self._read(node, given)
        types = [k.type for k in node.table_keys]
        flat = flatten(keys)
        self._matcher = Matcher(flat_types(types), range(len(flat)), nulls_equal=any(map(pa.types.is_struct, types)))
        self._runs = Runs(flagged_are_gone=False)
        rows = self._table.num_rows
        keyed = pa.Table.from_arrays([*flat, pa.array(np.arange(rows))], names=[f"c{i}" for i in range(len(flat) + 1)])
        able = np.ones(rows, bool)
        for key in keys:
            able &= pc.is_valid(key).to_numpy(zero_copy_only=False)
        self._places = np.flatnonzero(able)
        keyed = keyed.filter(pa.array(able)).combine_chunks()
        flat = [one_chunk(c) for c in keyed.columns[:-1]]
        self._runs.push(keyed, hashed(flat, len(self._places)), np.zeros(len(self._places), np.int64))

    @staticmethod
    def _read(node: Lookup, table: pa.Table) -> tuple[pa.RecordBatch, list[pa.Array]]:
        """The rows of the table under the types of its schema, and its keys."""
        columns = [one_chunk(table.column(i)).cast(field.type) for i, field in enumerate(node.table_schema.fields)]
        rows = record(columns, [f"c{i}" for i in range(len(columns))], table.num_rows)
        batch = Batch(rows, Arrival.at(0.0, table.num_rows))
        return rows, [evaluate(k, batch) for k in node.table_keys]

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        keys = [evaluate(k, batch) for k in self._keys]
        rows = batch.rows.num_rows
        flat = flatten(keys)
        hashes = hashed(flat, rows)
        able = np.ones(rows, bool)
        for key in keys:
            if key.null_count:
                able &= pc.is_valid(key).to_numpy(zero_copy_only=False)
        matched = np.zeros(rows, bool)
        out: list[Batch] = []
        for run in self._runs:
            for probes, found in self._matcher.pairs(run, flat, hashes):
                inside = able[probes]
                out += self._met(batch, probes[inside], self._places[found[inside]], matched)
        if self._how in ("semi", "anti"):
            chosen = matched if self._how == "semi" else ~matched
            return self._plain(batch, chosen, [])
        if self._how == "left":
            out += self._plain(batch, ~matched, self._types)
        return out

    def _met(self, batch: Batch, probes: Ints, found: Ints, matched: Flags) -> list[Batch]:
        """The pairs that meet the residual condition; marks in `matched` the rows that have a partner."""
        one_sided = self._how in ("semi", "anti")
        if not self._residual and one_sided:
            matched[probes] = True
            return []
        left = batch.rows.select(list(range(self._width))).take(pa.array(probes))
        right = self._table.take(pa.array(found))
        columns = [*left.columns, *right.columns]
        pairs = Batch(record([*columns, pa.array(probes)], self._pair_names, len(probes)), Arrival.at(0.0, len(probes)))
        pairs = select(pairs, self._residual).materialized() if self._residual else pairs
        matched[pairs.rows.column(len(columns)).to_numpy()] = True
        if one_sided or not pairs.rows.num_rows:
            return []
        return [self._batch(batch, pairs.rows.columns[:-1], pairs.rows.num_rows)]

    def _plain(self, batch: Batch, chosen: Flags, missing: Sequence[pa.DataType]) -> list[Batch]:
        """Some rows of the stream, with nulls for the columns of the table."""
        count = int(chosen.sum())
        if not count:
            return []
        rows = batch.rows.select(list(range(self._width)))
        rows = rows if count == len(chosen) else rows.filter(pa.array(chosen))
        return [self._batch(batch, [*rows.columns, *(pa.nulls(count, t) for t in missing)], count)]

    def _batch(self, batch: Batch, columns: Sequence[pa.Array], rows: int) -> Batch:
        mean = batch.arrival.total / max(batch.arrival.count, 1)
        arrival = Arrival(rows, mean * rows, batch.arrival.first)
        return Batch(record(columns, self._names, rows), arrival, batch.watermark)
