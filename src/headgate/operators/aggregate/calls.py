"""The aggregate functions of one operator together: their inputs, their states side by side, their results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.expressions.aggregates.grouping import Groups
from headgate.expressions.aggregates.python import PythonAggregate
from headgate.expressions.functions import accumulator
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall

_PENDING = 32768
"""Up to this many rows are buffered before they are grouped: a pass over few rows costs nearly as much as over many."""


class Calls:
    """All aggregate calls of an operator: `exprs` are their inputs, each once; `types` the columns of all states.

    Operators group the rows that they buffer when there are `buffer_rows` of them.
    """

    def __init__(self, calls: Sequence[AggregateCall]) -> None:
        self._accumulators = [accumulator(call) for call in calls]
        self.exprs: list[Expr]
        self.exprs, self._places = unique([e for acc in self._accumulators for e in acc.inputs])
        self.types = [t for acc in self._accumulators for t in acc.types]
        self.needs_order = any(acc.needs_order for acc in self._accumulators)
        self._needs_ids = any(acc.needs_ids for acc in self._accumulators)
        # A user's aggregate gets its rows at once: an error raised later would not be attributed to its query.
        self.buffer_rows = 1 if any(isinstance(acc, PythonAggregate) for acc in self._accumulators) else _PENDING

    def partial(
        self, keys: Sequence[pa.Array], inputs: Sequence[pa.Array], rows: int
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Groups rows: the keys and the state of each group. With `needs_order` the last input is the row number."""
        groups = Groups(keys, rows)
        programs = []
        place = 0
        for acc in self._accumulators:
            own = [inputs[p] for p in self._places[place : place + len(acc.inputs)]]
            place += len(acc.inputs)
            programs.append(acc.partial([*own, inputs[-1]] if acc.needs_order else own, groups))
        found, states = groups.reduce(programs, self._needs_ids)
        return found, [self._typed(column, at) for at, column in enumerate(c for state in states for c in state)]

    def empty(self) -> list[pa.Array]:
        """The states of one group that has no rows: those of one row of nulls, which only count(*) would count."""
        states: list[pa.Array] = []
        for acc in self._accumulators:
            if isinstance(acc, PythonAggregate):
                states += acc.empty()
                continue
            if not acc.inputs:
                states.append(pa.array([0], acc.types[0]))
                continue
            nulls = [pa.nulls(1, e.type) for e in acc.inputs]
            groups = Groups([], 1)
            program = acc.partial([*nulls, pa.nulls(1, pa.int64())] if acc.needs_order else nulls, groups)
            _, (state,) = groups.reduce([program], acc.needs_ids)
            states += state
        return [self._typed(column, at) for at, column in enumerate(states)]

    def merge(
        self, keys: Sequence[pa.Array], states: Sequence[pa.Array], rows: int
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Groups states: the keys and the merged state of each group."""
        groups = Groups(keys, rows)
        programs = []
        place = 0
        for acc in self._accumulators:
            programs.append(acc.merge(states[place : place + len(acc.types)], groups))
            place += len(acc.types)
        found, merged = groups.reduce(programs, self._needs_ids)
        return found, [self._typed(column, at) for at, column in enumerate(c for state in merged for c in state)]

    def results(self, states: Sequence[pa.Array]) -> list[pa.Array]:
        """The value of each function, one per state."""
        values = []
        place = 0
        for acc in self._accumulators:
            values.append(acc.result(states[place : place + len(acc.types)]))
            place += len(acc.types)
        return values

    def _typed(self, column: pa.Array, at: int) -> pa.Array:
        return column if column.type == self.types[at] else column.cast(self.types[at])


def unique(exprs: Sequence[Expr]) -> tuple[list[Expr], list[int]]:
    """The distinct expressions, and the position of each given one among them."""
    places: dict[Expr, int] = {}
    positions = [places.setdefault(e, len(places)) for e in exprs]
    return list(places), positions
