"""Decimal arithmetic: computed on 256-bit integers, rounded half up to the result's scale, checked for its precision.

Arrow types decimal results by rules of its own, which Spark does not share. So the kernels strip the scale: a
decimal is its unscaled integer, held as decimal256 of scale 0, and labels of precision (which Arrow reads only to
type results) are set so that no result type passes Arrow's 76 digits.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import nulls, rebuilt
from headgate.expressions.errors import EvaluationError, first_true
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT

_WIDEST = 76
_INTEGER = pa.decimal256(_WIDEST, 0)
_EXACT = Context(prec=_WIDEST)


def labelled(array: pa.Array, precision: int, scale: int = 0) -> pa.Array:
    """The same 256-bit integers under another precision and scale."""
    type_ = pa.decimal256(precision, scale)
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], offset=array.offset)


def unscaled(array: pa.Array) -> pa.Array:
    """The unscaled integers of a decimal column."""
    wide = pc.cast(array, pa.decimal256(array.type.precision, array.type.scale))
    return labelled(wide, _WIDEST)


def _power(exponent: int) -> pa.Scalar:
    return pa.scalar(Decimal(1).scaleb(exponent, _EXACT), pa.decimal256(exponent + 1, 0))


def shifted(integers: pa.Array, digits: int) -> pa.Array:
    """Multiplied by ten to the power of `digits`; rounded half up if `digits` is negative."""
    if digits == 0:
        return integers
    if digits > 0:
        product = pc.multiply(labelled(integers, _WIDEST - digits - 2), _power(digits))
        return labelled(product, _WIDEST)
    return pc.cast(
        pc.round(labelled(integers, _WIDEST, -digits), 0, round_mode="half_towards_infinity"), _INTEGER, safe=False
    )


def truncated(integers: pa.Array, digits: int) -> pa.Array:
    """Without the last `digits` digits, truncated towards zero; with zeros appended if `digits` is negative."""
    if digits <= 0:
        return shifted(integers, -digits)
    return pc.cast(pc.trunc(labelled(integers, _WIDEST, digits)), _INTEGER, safe=False)


def narrowed(integers: pa.Array, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Unscaled integers as a decimal column: null where there are too many digits, and the mask of those rows."""
    bad: pa.BooleanArray | None = pc.fill_null(pc.greater_equal(pc.abs(integers), _limit(type_.precision)), False)
    if pc.any(bad).as_py():
        integers = pc.if_else(bad, pa.scalar(None, integers.type), integers)
    else:
        bad = None
    narrow = pc.cast(labelled(integers, _WIDEST), pa.decimal128(38, 0), safe=False)
    return pa.Array.from_buffers(type_, len(narrow), narrow.buffers()[:2], offset=narrow.offset), bad


def _limit(precision: int) -> pa.Scalar:
    return pa.scalar(Decimal(1).scaleb(precision, _EXACT), _INTEGER)


def out_of_range(value: Any, type_: pa.DataType) -> EvaluationError:
    return EvaluationError(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        f"{value} cannot be represented as Decimal({type_.precision}, {type_.scale}). "
        'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error, and return NULL instead.',
    )


def strict(integers: pa.Array, type_: pa.DataType) -> pa.Array:
    """As `narrowed`, raising where a value does not fit."""
    result, bad = narrowed(integers, type_)
    if bad is not None:
        value = integers[first_true(bad) or 0].as_py()
        raise out_of_range(value.scaleb(-type_.scale, _EXACT), type_)
    return result


def rescaled(array: pa.Array, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """A decimal column as another decimal type, rounded half up; see `narrowed`."""
    return narrowed(shifted(unscaled(array), type_.scale - array.type.scale), type_)


def total(call: Call, finish: Kernel) -> Kernel:
    """add and subtract."""
    scale = max(a.type.scale for a in call.args)
    run = pc.add if call.name.endswith("add") else pc.subtract

    def compute(a: Value, b: Value) -> Value:
        x, y = (labelled(shifted(unscaled(v), scale - v.type.scale), _WIDEST - 1) for v in arrays(a, b))
        return finish(shifted(labelled(run(x, y), _WIDEST), call.type.scale - scale), call.type)

    return compute


def product(call: Call, finish: Kernel) -> Kernel:
    scale = sum(a.type.scale for a in call.args)

    def compute(a: Value, b: Value) -> Value:
        x, y = (unscaled(v) for v in arrays(a, b))
        result = pc.multiply(labelled(x, 38), labelled(y, 37))
        return finish(shifted(labelled(result, _WIDEST), call.type.scale - scale), call.type)

    return compute


def _quotient(x: pa.Array, y: pa.Array, digits: int) -> pa.Array:
    """x * 10**digits / y, truncated, on unscaled integers; y is never zero."""
    # Arrow multiplies the dividend by 100 under these labels (its result has scale 4).
    if digits >= 2:
        x = shifted(x, digits - 2)
    else:
        y = shifted(y, 2 - digits)
    return labelled(pc.divide(labelled(x, _WIDEST - 2, 2), labelled(y, 1, 0)), _WIDEST)


def quotient(call: Call, finish: Kernel) -> Kernel:
    """Computes one digit more than the result has, truncated, and rounds half up by it."""
    dividend, divisor = (a.type for a in call.args)
    digits = call.type.scale + 1 + divisor.scale - dividend.scale

    def compute(a: Value, b: Value) -> Value:
        x, y = (unscaled(v) for v in arrays(a, b))
        return finish(shifted(_quotient(x, y, digits), -1), call.type)

    return compute


def whole_quotient(call: Call) -> Kernel:
    """`div`: the quotient without its fraction, as BIGINT."""
    dividend, divisor = (a.type for a in call.args)
    digits = divisor.scale - dividend.scale

    def compute(a: Value, b: Value) -> Value:
        x, y = (unscaled(v) for v in arrays(a, b))
        result = _quotient(x, y, digits)
        # Spark takes the low 64 bits of a quotient that does not fit, without an error.
        limbs = np.frombuffer(result.buffers()[1], np.int64).reshape(-1, 4)[result.offset : result.offset + len(result)]
        return rebuilt(limbs[:, 0], BIGINT, nulls(result))

    return compute


def remainder(call: Call) -> Kernel:
    scale = max(a.type.scale for a in call.args)

    def compute(a: Value, b: Value) -> Value:
        x, y = (shifted(unscaled(v), scale - v.type.scale) for v in arrays(a, b))
        rest = labelled(pc.remainder(x, y), _WIDEST)
        if call.name.endswith("pmod"):
            zero = pa.scalar(Decimal(0), rest.type)
            room = pc.add(labelled(rest, _WIDEST - 1), labelled(y, _WIDEST - 1))
            rest = pc.if_else(pc.less(rest, zero), labelled(pc.remainder(labelled(room, _WIDEST), y), _WIDEST), rest)
        return strict(shifted(rest, call.type.scale - scale), call.type)

    return compute
