"""Integer and floating-point arithmetic with ANSI errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.errors import EvaluationError, divide_by_zero, first_true, overflow, remainder_by_zero
from headgate.expressions.kernels import Kernel, Value, arrays, arrow
from headgate.graph.expressions import Call, Literal
from headgate.graph.types import INTERVAL, is_integral

_WORDS = {pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer", pa.int64(): "long"}
_CHECKED = {"add": "add_checked", "subtract": "subtract_checked", "multiply": "multiply_checked"}


def checked(name: str, type_: pa.DataType) -> Kernel:
    """Arrow's checked function; an overflow raises Spark's error."""
    run = arrow(f"{name}_checked")
    what = f"{_WORDS.get(type_, 'long')} overflow" if type_ != INTERVAL else "Interval value overflows"
    hint = f"try_{name}" if name in _CHECKED else ""

    def guarded(*args: Value) -> Value:
        try:
            return run(*args)
        except pa.ArrowInvalid as error:
            if hint and type_.bit_width < 32:
                raise _small_overflow(name, *arrays(*args)) from error
            raise overflow(what, hint) from error

    return guarded


def _small_overflow(name: str, a: pa.Array, b: pa.Array) -> EvaluationError:
    """The error for TINYINT and SMALLINT, which names the operands as Spark's does."""
    wide = getattr(pc, name)(pc.cast(a, pa.int64()), pc.cast(b, pa.int64()))
    width = 2 ** (a.type.bit_width - 1)
    row = first_true(pc.fill_null(pc.or_(pc.less(wide, -width), pc.greater_equal(wide, width)), False)) or 0
    sign = {"add": "+", "subtract": "-", "multiply": "*"}[name]
    return EvaluationError(
        "BINARY_ARITHMETIC_OVERFLOW",
        f"{a[row]}S {sign} {b[row]}S caused overflow. Use `try_{name}` to ignore overflow problem and return NULL.",
    )


def integers_or_floats(call: Call) -> Kernel:
    """add, subtract, multiply on plain numbers."""
    return checked(call.name, call.type) if is_integral(call.type) else arrow(call.name)


def any_zero(divisor: Value) -> bool:
    """Whether any row's divisor is zero."""
    if isinstance(divisor, pa.Scalar):
        return bool(divisor.is_valid and divisor.as_py() == 0)
    zero = pa.scalar(0, divisor.type) if not pa.types.is_floating(divisor.type) else pa.scalar(0.0, divisor.type)
    return bool(pc.any(pc.equal(divisor, zero)).as_py())


def zeros_matter(dividend: Value, divisor: Value) -> bool:
    """Whether any row divides a value by zero (a null dividend gives null and no error)."""
    if not any_zero(divisor):
        return False
    if isinstance(dividend, pa.Scalar):
        return bool(dividend.is_valid)
    zero = pc.equal(divisor, pa.scalar(0, divisor.type))
    return bool(pc.any(pc.and_(pc.is_valid(dividend), zero)).as_py())


def without_zeros(divisor: Value) -> Value:
    """The divisor with NULL for zero."""
    (divisor,) = arrays(divisor) if not isinstance(divisor, pa.Scalar) else (divisor,)
    return pc.if_else(pc.equal(divisor, pa.scalar(0, divisor.type)), pa.scalar(None, divisor.type), divisor)


def never_zero(call: Call) -> bool:
    divisor = call.args[1]
    return isinstance(divisor, Literal) and divisor.value is not None and divisor.value != 0


def guard_zero(call: Call, run: Kernel, error: Callable[[], Exception]) -> Kernel:
    """Raises where a value is divided by zero; rows whose dividend is null give null."""
    if never_zero(call):
        return run

    def guarded(a: Value, b: Value) -> Value:
        if any_zero(b):
            if zeros_matter(a, b):
                raise error()
            b = without_zeros(b)
        return run(a, b)

    return guarded


def divide_floats(call: Call) -> Kernel:
    return guard_zero(call, arrow("divide"), divide_by_zero)


def divide_whole(call: Call) -> Kernel:
    """`div` on BIGINT: truncates; the least BIGINT by -1 overflows."""
    run = arrow("divide_checked")

    def divide(a: Value, b: Value) -> Value:
        try:
            return run(a, b)
        except pa.ArrowInvalid as error:
            raise overflow("Overflow in integral divide", "try_divide") from error

    return guard_zero(call, divide, divide_by_zero)


def remainder(call: Call) -> Kernel:
    """`%`: the sign is the dividend's."""
    if pa.types.is_floating(call.type):

        def run(a: Value, b: Value) -> Value:
            x, y = arrays(a, b)
            with np.errstate(invalid="ignore"):
                return rebuilt(np.fmod(numbers(x), numbers(y)), call.type, nulls(x, y))

        return guard_zero(call, run, remainder_by_zero)
    return guard_zero(call, arrow("remainder"), remainder_by_zero)


def positive_remainder(call: Call) -> Kernel:
    """pmod: r = a % n; if r < 0 then (r + n) % n, else r."""
    plain = remainder(call)

    def run(a: Value, b: Value) -> Value:
        r = plain(a, b)
        negative = pc.less(r, pa.scalar(0, call.type))
        if not pc.any(negative).as_py():
            return r
        if is_integral(call.type):
            x, n = arrays(r, b)
            values, by = numbers(x).astype(np.int64), numbers(n).astype(np.int64)
            shifted = np.where(values < 0, np.fmod(values + by, np.where(by == 0, 1, by)), values)
            return rebuilt(shifted, call.type, nulls(x, n))
        x, n = arrays(r, without_zeros(b))
        values, by = numbers(x), numbers(n)
        with np.errstate(invalid="ignore"):
            shifted = np.where(values < 0, np.fmod(values + by, by), values)
        return rebuilt(shifted, call.type, nulls(x, n))

    return run
