"""Where kernels are found: a function's name, and what makes its kernel for one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.expressions import Call

Value = Any
"""An Arrow array with one value per row, or an Arrow scalar where all rows have the same."""

Kernel = Callable[..., Value]
"""Takes the values of a call's arguments; at least one is an array, unless there are none."""

Maker = Callable[[Call], Kernel]
"""Makes the kernel of one call, once; literals, types and the option are looked at here, not per batch."""

KERNELS: dict[str, Maker] = {}
"""Every kernel's maker, by the canonical name of the function."""


def kernel(*names: str) -> Callable[[Maker], Maker]:
    """Enters a maker under the names of the functions it is for."""

    def enter(maker: Maker) -> Maker:
        KERNELS.update((name, maker) for name in names)
        return maker

    return enter


def arrow(name: str, options: pc.FunctionOptions | None = None) -> Kernel:
    """A kernel that is one of Arrow's own functions, looked up once."""
    call = pc.get_function(name).call
    if options is None:
        return lambda *args: call(args)
    return lambda *args: call(args, options)


def array_of(value: Value, rows: int) -> pa.Array:
    """The value as an array of so many rows."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def arrays(*values: Value) -> list[pa.Array]:
    """All values as arrays of equal length; at least one must be an array."""
    rows = max(len(v) for v in values if not isinstance(v, pa.Scalar))
    return [array_of(v, rows) for v in values]
