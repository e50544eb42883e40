"""round and bround as Spark does them: on the decimal digits of a number, not on its binary value."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import labelled, shifted, strict, unscaled
from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import bounded, is_decimal, is_floating
from headgate.expressions.errors import overflow
from headgate.expressions.kernels import Kernel, arrays, constant
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.graph.expressions import Call
from headgate.graph.types import DOUBLE, INT, NULL, STRING, is_integral, is_numeric, sql_name

_EXACT = 2.0**50  # below this, scaled numbers have enough digits to detect a tie


def _round_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    places = literals[1] if len(literals) > 1 else 0
    if is_integral(result):
        return not isinstance(places, int) or places < 0
    return bool(is_decimal(result) and result.precision == 38)


def _round_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 2)
    type_ = DOUBLE if types[0] in (STRING, NULL) else types[0]
    if not is_numeric(type_):
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    places = 0
    if len(types) == 2:
        if not isinstance(literals[1], int):
            raise WrongArguments(f"the scale of {name} must be a literal INT", 1)
        places = literals[1]
    args = (type_, *((INT,) if len(types) == 2 else ()))
    result = type_
    if is_decimal(type_):
        whole = type_.precision - type_.scale + 1
        if places < 0:
            result = bounded(max(whole, -places + 1), 0)
        else:
            scale = min(type_.scale, places)
            result = bounded(whole + scale, scale)
    elif not is_floating(type_) and not is_integral(type_):
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    return Signature(name, args, result, native=abs(places) <= 30)


@function("round", "bround", types=_round_types, fails=_round_fails)
def _round(call: Call) -> Kernel:
    places = int(str(constant(call, 1))) if len(call.args) == 2 else 0
    even = call.name == "bround"
    given = call.args[0].type
    if pa.types.is_decimal(given):
        return lambda value, *_: _decimals(arrays(value)[0], places, even, call.type)
    if is_integral(given):
        if places >= 0:
            return lambda value, *_: value
        return lambda value, *_: _integers(arrays(value)[0], -places, even)
    return lambda value, *_: _floats(arrays(value)[0], places, even)


def _decimals(array: pa.Array, places: int, even: bool, type_: pa.DataType) -> pa.Array:
    scale = array.type.scale
    integers = unscaled(array)
    if places < scale:
        drop = scale - places
        if drop > 70:
            integers = pc.multiply(labelled(integers, 38), pa.scalar(Decimal(0), pa.decimal256(1, 0)))
            return strict(labelled(integers, 76), type_)
        mode = "half_to_even" if even else "half_towards_infinity"
        rounded = pc.round(labelled(integers, 76, drop), 0, round_mode=mode)
        integers = pc.cast(rounded, pa.decimal256(76, 0), safe=False)
        return strict(shifted(integers, type_.scale - places), type_)
    return strict(integers, type_)


def _integers(array: pa.Array, digits: int, even: bool) -> pa.Array:
    """Rounds the last `digits` digits; EvaluationError where the result does not fit the type."""
    values, missing = numbers(array).astype(np.int64), nulls(array)
    if digits > 18:
        # Only 19 digits can round up to 10^19, which no BIGINT holds.
        up = digits == 19 and (np.abs(values.astype(np.float64)) >= 5e18).any()
        if up:
            raise overflow("long overflow")
        return rebuilt(np.zeros(len(values), np.int64), array.type, missing)
    unit = 10**digits
    whole, rest = np.floor_divide(values, unit), np.mod(values, unit)
    half = rest * 2
    up = half > unit
    tie = half == unit
    # A tie is rounded away from zero (up, unless negative), or to the even neighbour.
    up = up | (tie & ((whole % 2 != 0) if even else (values >= 0)))
    result = (whole + up).astype(np.float64) * unit
    width = 2.0 ** (array.type.bit_width - 1)
    outside = (result >= width) | (result < -width)
    if missing is not None:
        outside &= ~missing
    if outside.any():
        raise overflow({8: "byte", 16: "short", 32: "integer"}.get(array.type.bit_width, "long") + " overflow")
    return rebuilt((whole + up) * unit, array.type, missing)


def _floats(array: pa.Array, places: int, even: bool) -> pa.Array:
    """By multiplication where that is exact enough; near ties and for very large numbers by the decimal digits."""
    values = numbers(array).astype(np.float64)
    with np.errstate(all="ignore"):
        factor = 10.0 ** abs(places)
        scaled = np.abs(values * factor if places >= 0 else values / factor)
        whole = np.floor(scaled)
        rest = scaled - whole
        near = np.abs(rest - 0.5) <= scaled * 2.0**-49
        rounded = whole + (rest > 0.5)
        result = np.copysign(rounded / factor if places >= 0 else rounded * factor, values)
        finite = np.isfinite(values)
        as_is = ~finite | (values == 0) | ((places >= 0) & (np.floor(values) == values))
        hard = ~as_is & (near | (scaled >= _EXACT) | (abs(places) > 22))
    # Java's BigDecimal has no negative zero.
    result = np.where(as_is, values, result)
    result = np.where(finite & (result == 0), 0.0, result)
    if hard.any():
        result[hard] = _by_digits(values[hard], places, even)
    return rebuilt(result, array.type, nulls(array))


def _by_digits(values: Numbers, places: int, even: bool) -> Numbers:
    context = Context(prec=400, rounding=ROUND_HALF_EVEN if even else ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-places)
    return np.array([float(Decimal(repr(float(v))).quantize(unit, context=context)) for v in values]) + 0.0
