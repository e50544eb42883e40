"""Bitwise operators and shifts."""

from __future__ import annotations

import numpy as np

from headgate.expressions.arithmetic.operands import numeric_operands, wrong_operands
from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.coercion import common_numeric
from headgate.expressions.kernels import Kernel, Value, arrays, arrow
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, INT, NULL, is_integral


def _bits_types(name: str, types: Types, literals: Literals) -> Signature:
    args = numeric_operands(name, types)
    common = common_numeric(*args)
    if not is_integral(common):
        raise wrong_operands(name, types, "it takes integers")
    return Signature(name, (common, common), common)


@function("bitand", "bitor", "bitxor", types=_bits_types)
def _bits(call: Call) -> Kernel:
    return arrow(f"bit_wise_{call.name.removeprefix('bit')}")


def _bitnot_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not is_integral(types[0]):
        raise wrong_operands(name, types, "it takes an integer")
    return Signature(name, types, types[0])


@function("bitnot", types=_bitnot_types)
def _bitnot(call: Call) -> Kernel:
    return arrow("bit_wise_not")


def _shift_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not is_integral(types[0]) or not (is_integral(types[1]) or types[1] == NULL):
        raise wrong_operands(name, types, "it takes two integers")
    value = BIGINT if types[0] == BIGINT else INT
    return Signature(name, (value, INT), value)


@function("shiftleft", "shiftright", "shiftrightunsigned", types=_shift_types)
def _shift(call: Call) -> Kernel:
    """As in Java, the distance is taken modulo the width."""
    width = call.type.bit_width
    unsigned = np.uint64 if width == 64 else np.uint32

    def shift(a: Value, b: Value) -> Value:
        x, y = arrays(a, b)
        values, by = numbers(x), numbers(y) & (width - 1)
        if call.name == "shiftleft":
            moved = np.left_shift(values, by.astype(values.dtype))
        elif call.name == "shiftright":
            moved = np.right_shift(values, by.astype(values.dtype))
        else:
            moved = np.right_shift(values.view(unsigned), by.astype(unsigned)).view(values.dtype)
        return rebuilt(moved, call.type, nulls(x, y))

    return shift
