"""Joins each row of a stream with a static table; the stream is the left side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.expressions.hashing import Hashes, hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk
from headgate.graph.operators import Lookup
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher, without_nulls
from headgate.operators.partners import Flags, Pairs, Partners
from headgate.operators.registry import implements
from headgate.operators.runs import Runs
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless


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
        self._keys = node.keys
        self._names = node.schema.names
        self._partners = Partners(node.how, node.residual, len(node.input.schema), node.table_schema.types)
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
        able = without_nulls(keys, rows)
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
        able = without_nulls(keys, rows)
        out: list[Batch] = []
        for columns, count in self._partners.joined(batch.rows, self._pairs(flat, hashes, able)):
            arrival = Arrival(count, batch.arrival.mean * count, batch.arrival.first)
            out.append(Batch(record(columns, self._names, count), arrival, batch.watermark))
        return out

    def _pairs(self, keys: list[pa.Array], hashes: Hashes, able: Flags) -> Pairs:
        """The rows of the table with equal keys."""
        for run in self._runs:
            for probes, found in self._matcher.pairs(run, keys, hashes):
                inside = able[probes]
                yield probes[inside], self._table, self._places[found[inside]]
