"""User-defined aggregates: classes with initialize, iterate, merge and terminate over Arrow arrays (001's UDAs).

    class Mean:
        state = {"total": pa.float64(), "rows": pa.int64()}

        def initialize(self, groups): ...              # the state of `groups` groups without rows
        def iterate(self, state, group, x): ...        # the state after rows: `group` is the group of each row
        def merge(self, state, group, other): ...      # the state after other states: `group` is the group of each
        def terminate(self, state): ...                # one value per group

A state is a dictionary of Arrow arrays, one element per group. The rows of a group are passed in several calls and
states are merged in any order, so the result must not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.expressions.aggregates.grouping import Groups, Rounds
from headgate.expressions.errors import EvaluationError
from headgate.expressions.python import load
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import Field

METHODS = ("initialize", "iterate", "merge", "terminate")

State = dict[str, pa.Array]


def aggregate_problem(found: Any) -> str | None:
    """Why a class cannot be a user-defined aggregate, or None."""
    missing = [name for name in METHODS if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing:
        lacks = f"it has no {' and no '.join(missing)}" if missing else "it is not a class"
        return f"an aggregate is a class with the methods {', '.join(METHODS)}; {lacks}"
    declared = getattr(found, "state", None)
    pairs = _columns(declared)
    if not pairs or not all(isinstance(n, str) and isinstance(t, pa.DataType) for n, t in pairs):
        return "the columns of its state must be declared, as in state = {'total': pyarrow.float64()}"
    return None


def state_of(found: Any) -> tuple[Field, ...]:
    """The columns of the state that a class declares; the class has no `aggregate_problem`."""
    return tuple(Field(name, type_) for name, type_ in _columns(found.state))


def _columns(declared: Any) -> list[tuple[Any, Any]]:
    if isinstance(declared, pa.Schema):
        return [(column.name, column.type) for column in declared]
    return list(declared.items()) if isinstance(declared, Mapping) else []


class PythonAggregate:
    """Runs a user's class. Nulls are passed like any other value: the class decides what they mean."""

    needs_ids = True
    needs_order = False

    def __init__(self, call: AggregateCall, inputs: tuple[Expr, ...]) -> None:
        self.inputs = inputs
        self._call = call
        self._filtered = call.where is not None
        self._names = [column.name for column in call.state]
        self.types = tuple(column.type for column in call.state)
        self._object: Any = None

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        ids = groups.ids
        if self._filtered:
            *inputs, passed = inputs
            chosen = pa.array(passed.is_valid().to_numpy(zero_copy_only=False).nonzero()[0])
            ids, inputs = ids[chosen.to_numpy()], [column.take(chosen) for column in inputs]
        state = self._initial(groups.size)
        if len(ids):
            state = self._state("iterate", groups.size, self._given(state), pa.array(ids), *inputs)
        return state

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        first = self._given(self._initial(groups.size))
        return self._state("merge", groups.size, first, pa.array(groups.ids), self._given(state))

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return self._array("terminate", self._run("terminate", self._given(state)), self._call.type, len(state[0]))

    def empty(self) -> list[pa.Array]:
        """The state of one group without rows."""
        return self._initial(1)

    def _initial(self, groups: int) -> list[pa.Array]:
        return self._state("initialize", groups, groups)

    def _given(self, state: Sequence[pa.Array]) -> State:
        return dict(zip(self._names, state, strict=True))

    def _state(self, method: str, groups: int, *args: Any) -> list[pa.Array]:
        returned = self._run(method, *args)
        if isinstance(returned, (pa.RecordBatch, pa.Table)):
            returned = dict(zip(returned.schema.names, returned.columns, strict=True))
        if not isinstance(returned, Mapping) or set(returned) != set(self._names):
            raise self._error(f"{method} must return a dictionary with the arrays {', '.join(self._names)}")
        return [self._array(method, returned[n], t, groups) for n, t in zip(self._names, self.types, strict=True)]

    def _run(self, method: str, *args: Any) -> Any:
        try:
            if self._object is None:
                self._object = self._loaded()()
            run: Callable[..., Any] = getattr(self._object, method)
            return run(*args)
        except EvaluationError:
            raise
        except Exception as error:
            raise self._error(f"{method} failed: {type(error).__name__}: {error}") from error

    def _loaded(self) -> Any:
        found = load(self._call.option)
        problem = aggregate_problem(found)
        if problem is None and state_of(found) != self._call.state:
            problem = "the columns of its state are not those of its declaration; declare it again"
        if problem is not None:
            raise self._error(problem)
        return found

    def _array(self, method: str, values: Any, type_: pa.DataType, size: int) -> pa.Array:
        try:
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            if not isinstance(values, pa.Array):
                values = pa.array(values, type_) if not isinstance(values, np.ndarray) else pa.array(values)
            if values.type != type_:
                values = values.cast(type_)
        except Exception as error:
            raise self._error(f"{method} returned {type(error).__name__}: {error}") from error
        if len(values) != size:
            raise self._error(f"{method} returned {len(values)} values for {size} groups")
        return values

    def _error(self, what: str) -> EvaluationError:
        return EvaluationError("FAILED_EXECUTE_UDF", f"The aggregate {self._call.option}: {what}.")
