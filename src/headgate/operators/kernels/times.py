"""Windows and parts of times."""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.expressions import Call
from headgate.operators.kernels.buffers import nulls, numbers, rebuilt
from headgate.operators.kernels.registry import Kernel, Value, arrays, kernel


@kernel("window")
def _window(call: Call) -> Kernel:
    """The tumbling window of a time; the option is "length,slide,offset" in microseconds, length = slide."""
    length, slide, offset = (int(part) for part in call.option.split(","))
    if length != slide:
        raise ValueError("only a tumbling window is a function of the row; a hopping window repeats rows")
    time = call.args[0].type

    def window(value: Value) -> Value:
        (array,) = arrays(value)
        times, missing = numbers(array), nulls(array)
        starts = times - (times - offset) % length
        members = [rebuilt(starts, time, missing), rebuilt(starts + length, time, missing)]
        return pa.StructArray.from_arrays(members, fields=list(call.type), mask=_mask(array))

    return window


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
