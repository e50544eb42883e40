"""EXTRACT from intervals: days, and the remaining hours, minutes and seconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.times.instants import decimal_seconds
from headgate.expressions.times.zones import DAY, SECOND
from headgate.graph.expressions import Call
from headgate.graph.types import INT, INTERVAL, TINYINT, sql_name

_RESULTS = {
    "interval_days": INT,
    "interval_hours": TINYINT,
    "interval_minutes": TINYINT,
    "interval_seconds": pa.decimal128(8, 6),
}
# The next larger unit, whose multiples are removed, and the unit that is counted.
_UNITS = {"interval_hours": (DAY, 3_600 * SECOND), "interval_minutes": (3_600 * SECOND, 60 * SECOND)}


def _part_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if types[0] != INTERVAL:
        raise WrongArguments(f"{name} takes an interval, not {sql_name(types[0])}", 0)
    return Signature(name, types, _RESULTS[name])


@function(*_RESULTS, types=_part_types)
def _interval_part(call: Call) -> Kernel:
    """Parts have the sign of the interval, as in Java: they are truncated towards zero."""

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        size, missing = numbers(array), nulls(array)
        if call.name == "interval_days":
            return rebuilt(_quotient(size, DAY), INT, missing)
        if call.name == "interval_seconds":
            return decimal_seconds(np.fmod(size, 60 * SECOND), missing)
        above, unit = _UNITS[call.name]
        return rebuilt(_quotient(np.fmod(size, above), unit), TINYINT, missing)

    return run


def _quotient(size: Numbers, unit: int) -> Numbers:
    return (size - np.fmod(size, unit)) // unit
