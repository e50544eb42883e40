"""Types of date and time functions."""

from __future__ import annotations

from headgate.graph.functions.coercion import implicit
from headgate.graph.functions.signature import Literals, Signature, Types, count_arguments, function
from headgate.graph.types import INT, TIMESTAMP, TIMESTAMP_NTZ, WINDOW, WINDOW_NTZ


@function("window")
def _window(name: str, types: Types, literals: Literals) -> Signature:
    """The tumbling window that a time is in; the option is "length,slide,offset" in microseconds."""
    count_arguments(name, types, 1)
    if types[0] == TIMESTAMP_NTZ:
        return Signature(name, types, WINDOW_NTZ)
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), WINDOW)


def _clock_part(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if types[0] == TIMESTAMP_NTZ:
        return Signature(name, types, INT)
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), INT, zoned=True)


for _name in ("hour", "minute", "second"):
    function(_name)(_clock_part)
