"""User-defined aggregates that the case files declare with CREATE AGGREGATE, each the equal of one of Spark's."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

State = dict[str, pa.Array]


class Mean:
    """avg(x)."""

    state: ClassVar = {"total": pa.float64(), "rows": pa.int64()}

    def initialize(self, groups: int) -> State:
        return {"total": pa.array(np.zeros(groups)), "rows": pa.array(np.zeros(groups, np.int64))}

    def iterate(self, state: State, group: pa.Array, x: pa.Array) -> State:
        rows = pc.is_valid(x).cast(pa.int64())
        return self.merge(state, group, {"total": pc.fill_null(x, 0.0), "rows": rows})

    def merge(self, state: State, group: pa.Array, other: State) -> State:
        groups = len(state["rows"])
        return {
            name: pc.add(column, pa.array(np.bincount(group, other[name], groups)).cast(column.type))
            for name, column in state.items()
        }

    def terminate(self, state: State) -> pa.Array:
        return pc.if_else(pc.greater(state["rows"], 0), pc.divide(state["total"], state["rows"]), None)


class Rows:
    """count(*): an aggregate without an argument, whose state is declared as a schema."""

    state = pa.schema([("rows", pa.int64())])

    def initialize(self, groups: int) -> State:
        return {"rows": pa.repeat(0, groups)}

    def iterate(self, state: State, group: pa.Array) -> State:
        return {"rows": pc.add(state["rows"], pa.array(np.bincount(group, minlength=len(state["rows"]))))}

    def merge(self, state: State, group: pa.Array, other: State) -> State:
        added = np.bincount(group, other["rows"], len(state["rows"])).astype(np.int64)
        return {"rows": pc.add(state["rows"], pa.array(added))}

    def terminate(self, state: State) -> pa.Array:
        return state["rows"]


class Longest:
    """max(struct(length(s), s)).col2: two texts of equal length are compared. A state of text, by Arrow's grouping."""

    state: ClassVar = {"text": pa.string()}

    def initialize(self, groups: int) -> pa.Table:
        return pa.table({"text": pa.nulls(groups, pa.string())})

    def iterate(self, state: State, group: pa.Array, s: pa.Array) -> State:
        return self.merge(state, group, {"text": s})

    def merge(self, state: State, group: pa.Array, other: State) -> State:
        best = state["text"].to_pylist()
        for place, text in zip(group.to_pylist(), other["text"].to_pylist(), strict=True):
            if text is not None and (best[place] is None or (len(text), text) > (len(best[place]), best[place])):
                best[place] = text
        return {"text": pa.array(best, pa.string())}

    def terminate(self, state: State) -> pa.Array:
        return state["text"]
