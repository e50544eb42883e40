"""The state of one aggregate function, as columns: computed from rows, merged, and turned into the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from headgate.expressions.aggregates.grouping import Groups, Rounds
from headgate.graph.expressions import Expr


class Accumulator(Protocol):
    """One aggregate function of one query.

    `inputs` are evaluated on each row. `types` are the types of the state's columns; a state has one row per group.
    States of the same group can be merged in any order and grouping. `needs_ids`: the function reads `Groups.ids` or
    needs a second round. `needs_order`: its last input is the row number in order of arrival, which the operator adds.
    """

    @property
    def needs_ids(self) -> bool: ...

    @property
    def needs_order(self) -> bool: ...

    @property
    def inputs(self) -> tuple[Expr, ...]: ...

    @property
    def types(self) -> tuple[pa.DataType, ...]: ...

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        """The state of each group of rows."""
        ...

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        """The state of each group of states."""
        ...

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        """The value of the function, one per state."""
        ...
