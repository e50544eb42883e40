"""Values as text, as Spark writes them: numbers as in Java, times in the session time zone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.times.zones import SECOND, wall_clock
from headgate.graph.types import DATE, DOUBLE, STRING

_YEAR_10000 = 253_402_300_800


def text(array: pa.Array, zone: str = "") -> pa.Array:
    """CAST(… AS STRING)."""
    type_ = array.type
    if type_ == STRING:
        return array
    if pa.types.is_floating(type_):
        return float_text(array)
    if pa.types.is_decimal(type_):
        return decimal_text(array)
    if type_ == DATE or pa.types.is_timestamp(type_):
        return time_text(array, zone)
    return pc.cast(array, STRING)


def decimal_text(array: pa.Array) -> pa.Array:
    """Plain digits, never an exponent."""
    scale = array.type.scale
    written = pc.cast(array, STRING)
    if scale == 0 or not pc.any(pc.match_substring(written, "E")).as_py():
        return written
    # Arrow writes small numbers with an exponent: insert the point into the unscaled digits instead.
    wide = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
    digits = pc.cast(wide, STRING)
    negative = pc.starts_with(digits, "-")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    plain = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale), "."
    )
    return pc.if_else(negative, pc.binary_join_element_wise("-", plain, ""), plain)


def float_text(array: pa.Array) -> pa.Array:
    """Java's Double.toString and Float.toString: always a point; an exponent below 0.001 and from 10,000,000."""
    shortest = pc.cast(array, STRING)
    values = numbers(array)
    missing = nulls(array)
    if missing is not None:
        values = np.where(missing, 0, values)
    size = np.abs(values)
    with np.errstate(invalid="ignore"):
        plain = ((size >= 1e-3) & (size < 1e7)) | (size == 0)
    whole = pc.invert(pc.match_substring(shortest, "."))
    usual = pc.if_else(whole, pc.binary_join_element_wise(shortest, ".0", ""), shortest)
    if plain.all():
        return usual
    odd = pa.array(~plain)
    tiny = (size > 0) & (size < (1e-320 if array.type == DOUBLE else 1e-43))
    if tiny.any():
        shortest = _two_digits(shortest, values, tiny)
    result = pc.if_else(odd, _scientific(shortest), usual)
    named = pa.array(np.where(np.isnan(values), "NaN", np.where(values > 0, "Infinity", "-Infinity")), STRING)
    return pc.if_else(pa.array(~np.isfinite(values)), named, result)


def _two_digits(shortest: pa.Array, values: Numbers, tiny: Numbers) -> pa.Array:
    """Java writes at least two digits: 4.9E-324, where the shortest text is 5E-324."""
    replaced = [
        f"{float(v):.1e}" if "." not in text else text
        for text, v in zip(shortest.filter(pa.array(tiny)).to_pylist(), values[tiny], strict=True)
    ]
    return pc.replace_with_mask(shortest, pa.array(tiny), pa.array(replaced, STRING))


def _scientific(shortest: pa.Array) -> pa.Array:
    """`12300000`, `1.23e+7` and `0.0000123` as Java's `1.23E7`, `1.23E7`, `1.23E-5`."""
    parts = pc.extract_regex(
        shortest, r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]+))?(?:e(?P<exponent>[-+]?[0-9]+))?$"
    )
    sign, whole, part, exponent = (pc.struct_field(parts, i) for i in range(4))
    written = pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, "+"))
    # Moves the point behind the first digit that is not zero.
    digits = pc.binary_join_element_wise(whole, part, "")
    significant = pc.utf8_ltrim(digits, "0")
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    power = pc.add(pc.cast(written, pa.int32()), pc.subtract(pc.subtract(pc.utf8_length(whole), leading), 1))
    head = pc.utf8_slice_codeunits(significant, 0, 1)
    tail = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), "0")
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    return pc.binary_join_element_wise(sign, head, ".", tail, "E", pc.cast(power, STRING), "")


def time_text(array: pa.Array, zone: str) -> pa.Array:
    """`2024-02-29` and `2024-02-29 23:59:59.5`: without trailing zeros."""
    missing = nulls(array)
    if array.type == DATE:
        seconds, fraction = numbers(array).astype(np.int64) * 86_400, None
    else:
        micros = numbers(wall_clock(array, zone))
        seconds, fraction = np.floor_divide(micros, SECOND), np.mod(micros, SECOND)
    pattern = "%Y-%m-%d" if fraction is None else "%Y-%m-%d %H:%M:%S"
    written = pc.strftime(rebuilt(seconds, pa.timestamp("s"), missing), pattern)
    if len(seconds) and int(seconds.max()) >= _YEAR_10000:
        late = pa.array(seconds >= _YEAR_10000)
        written = pc.if_else(late, pc.binary_join_element_wise("+", written, ""), written)
    if fraction is None or not fraction.any():
        return written
    decimals = pc.utf8_rtrim(pc.utf8_lpad(pc.cast(pa.array(fraction), STRING), 6, "0"), "0")
    return pc.if_else(pa.array(fraction == 0), written, pc.binary_join_element_wise(written, decimals, "."))
