"""The building blocks of kernels: values, Arrow's own functions, and the literal arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.expressions import Call, Literal
from headgate.graph.types import STRING

Value = Any
"""An Arrow array with one value per row, or an Arrow scalar where all rows have the same value."""

Kernel = Callable[..., Value]
"""Takes the values of a call's arguments; at least one is an array, unless there are none."""

Maker = Callable[[Call], Kernel]
"""Creates the kernel of a call, once per call: literals, types and the option are read here, not per batch."""


def arrow(name: str, options: pc.FunctionOptions | None = None) -> Kernel:
    """A kernel that is one of Arrow's own functions, looked up once."""
    call = pc.get_function(name).call
    if options is None:
        return lambda *args: call(args)
    return lambda *args: call(args, options)


def array_of(value: Value, rows: int) -> pa.Array:
    """The value as an array of `rows` rows."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def arrays(*values: Value) -> list[pa.Array]:
    """All values as arrays of equal length; at least one must be an array."""
    rows = max(len(v) for v in values if not isinstance(v, pa.Scalar))
    return [array_of(v, rows) for v in values]


def constant(call: Call, position: int) -> object | None:
    """The value of the literal at a position; None if the argument is missing or not a literal."""
    arg = call.args[position] if position < len(call.args) else None
    return arg.value if isinstance(arg, Literal) else None


def null_literal(call: Call) -> bool:
    """Whether any argument is a NULL literal."""
    return any(isinstance(a, Literal) and a.value is None for a in call.args)


def all_null(call: Call) -> Kernel:
    """A kernel that gives NULL on every row."""
    return lambda *args: pa.nulls(len(arrays(*args)[0]), call.type)


def by_distinct(array: pa.Array, function: Callable[[str], object], type_: pa.DataType = STRING) -> pa.Array:
    """Applies a Python function once to each distinct value."""
    encoded = array.dictionary_encode()
    mapped = pa.array([function(v) for v in encoded.dictionary.to_pylist()], type_)
    return mapped.take(encoded.indices)
