"""Parses text as CAST from STRING does. Each function gives the values and where the text is malformed."""

from __future__ import annotations

from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import narrowed, shifted
from headgate.expressions.buffers import Numbers, as_bools, numbers, rebuilt
from headgate.expressions.times.calendar import days_from, valid_date
from headgate.expressions.times.zones import DAY, SECOND, instant, java_zone
from headgate.graph.types import BIGINT, BOOLEAN, TIMESTAMP_NTZ

Parsed = tuple[pa.Array, pa.BooleanArray | None]
"""Values (null where malformed) and where the text was malformed, None if nowhere."""


# Characters for which Java's isWhitespace or isISOControl is true; rare Unicode spaces are left out.
_BLANK = "".join(map(chr, [*range(0x21), *range(0x7F, 0xA0)]))
_INTEGER = r"^[+-]?[0-9]+$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?$"
_DATE = r"^(?P<y>[+-]?[0-9]{4,7})(?:-(?P<m>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})(?:[ T].*)?)?)?$"
_TIME = (
    r"^(?P<y>[+-]?[0-9]{4,6})(?:-(?P<m>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})"
    r"(?:[ T](?P<h>[0-9]{1,2})(?::(?P<i>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]*))?"
    r"(?P<z>[^0-9.].*)?)?)?)?)?)?$"
)
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def _trimmed(array: pa.Array) -> pa.Array:
    return pc.utf8_trim(array, _BLANK)


def _malformed(good: pa.BooleanArray) -> pa.BooleanArray | None:
    """Where a text is not null and not good; None if nowhere."""
    bad = pc.fill_null(pc.invert(good), False)
    return bad if pc.any(bad).as_py() else None


def _cleared(array: pa.Array, bad: pa.BooleanArray | None) -> pa.Array:
    return array if bad is None else pc.if_else(bad, pa.scalar(None, array.type), array)


def integers(array: pa.Array, type_: pa.DataType) -> Parsed:
    """Digits with an optional sign; no point, no exponent."""
    text = _trimmed(array)
    good = pc.match_substring_regex(text, _INTEGER)
    digits = pc.utf8_ltrim(pc.utf8_ltrim(text, "+-"), "0")
    size = pc.utf8_length(digits)
    edge = pc.if_else(pc.starts_with(text, "-"), "9223372036854775808", "9223372036854775807")
    fits = pc.or_(pc.less(size, 19), pc.and_(pc.equal(size, 19), pc.less_equal(digits, edge)))
    bad = _malformed(pc.and_(good, fits))
    longs = pc.cast(pc.utf8_ltrim(_cleared(text, bad), "+"), BIGINT)
    if type_ != BIGINT:
        width = 2 ** (type_.bit_width - 1)
        outside = pc.or_(pc.less(longs, -width), pc.greater_equal(longs, width))
        if pc.any(outside).as_py():
            outside = pc.fill_null(outside, False)
            bad = outside if bad is None else pc.or_(bad, outside)
            longs = _cleared(longs, outside)
    return pc.cast(longs, type_), bad


def floats(array: pa.Array, type_: pa.DataType) -> Parsed:
    """As Java's parseDouble, with inf, infinity and nan in any case."""
    text = _trimmed(array)
    good = pc.match_substring_regex(text, _FLOAT)
    plain = pc.replace_substring_regex(pc.utf8_rtrim(pc.utf8_ltrim(text, "+"), "dDfF"), r"\.($|[eE])", r".0\1")
    plain = pc.replace_substring_regex(plain, r"^(-?)\.", r"\10.")
    if pc.all(pc.fill_null(good, True)).as_py():
        return pc.cast(plain, type_), None
    lower = pc.utf8_lower(text)
    infinite = pc.is_in(lower, pa.array(["inf", "+inf", "infinity", "+infinity"]))
    lowest = pc.is_in(lower, pa.array(["-inf", "-infinity"]))
    named = pc.if_else(infinite, "inf", pc.if_else(lowest, "-inf", pc.if_else(pc.equal(lower, "nan"), "nan", None)))
    readable = pc.if_else(good, plain, named)
    bad = pc.and_(pc.is_null(readable), pc.is_valid(array))
    return pc.cast(readable, type_), bad if pc.any(bad).as_py() else None


def decimals(array: pa.Array, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None, pa.BooleanArray | None]:
    """Rounded half up. The third result tells where a well-formed number has too many digits."""
    text = _trimmed(array)
    scale = type_.scale
    parts = pc.extract_regex(text, _DECIMAL)
    sign, whole, part = (pc.struct_field(parts, i) for i in range(3))
    good = pc.and_(pc.is_valid(parts), pc.greater(pc.add(pc.utf8_length(whole), pc.utf8_length(part)), 0))
    whole = pc.utf8_ltrim(whole, "0")
    room = 75 - scale
    huge = pc.fill_null(pc.greater(pc.utf8_length(whole), room), False)
    usual = pc.and_(good, pc.invert(huge))
    # One digit more than the scale decides the rounding.
    digits = pc.utf8_rpad(pc.utf8_slice_codeunits(part, 0, scale + 1), scale + 1, "0")
    joined = pc.binary_join_element_wise(pc.utf8_ltrim(sign, "+"), whole, digits, "")
    integers = pc.cast(pc.if_else(usual, joined, None), pa.decimal256(76, 0))
    values, bad = narrowed(shifted(integers, -1), type_)
    too_big = bad if bad is not None else pa.repeat(False, len(array))
    too_big = pc.or_(too_big, pc.and_(huge, pc.fill_null(good, False)))
    others = pc.and_(pc.is_valid(array), pc.invert(pc.fill_null(good, False)))
    malformed = others
    if pc.any(others).as_py():
        # Numbers with an exponent are rare: Python's Decimal parses them as Java's BigDecimal does.
        values, malformed, over = _exponents(text, values, others, type_)
        too_big = pc.or_(too_big, over)
    return (
        values,
        malformed if pc.any(malformed).as_py() else None,
        too_big if pc.any(too_big).as_py() else None,
    )


def _exponents(
    text: pa.Array, values: pa.Array, others: pa.BooleanArray, type_: pa.DataType
) -> tuple[pa.Array, pa.BooleanArray, pa.BooleanArray]:
    places = pc.indices_nonzero(others).to_pylist()
    context = Context(prec=200, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))
    malformed = np.zeros(len(text), bool)
    over = np.zeros(len(text), bool)
    read: list[Decimal | None] = []
    for place, word in zip(places, text.take(pa.array(places)).to_pylist(), strict=True):
        number: Decimal | None = None
        with suppress(InvalidOperation):
            number = Decimal(word) if "_" not in word else None
        if number is None or not number.is_finite():
            malformed[place] = True
            number = None
        else:
            number, over[place] = _rounded(number, type_, context)
        read.append(number)
    found = pa.array(read, type_)
    places_of = np.zeros(len(text), np.int64)
    places_of[places] = np.arange(len(places))
    merged = pc.if_else(others, found.take(pa.array(places_of)), values) if places else values
    return merged, pa.array(malformed), pa.array(over)


def _rounded(number: Decimal, type_: pa.DataType, context: Context) -> tuple[Decimal | None, bool]:
    try:
        rounded = number.quantize(Decimal(1).scaleb(-type_.scale), context=context)
    except InvalidOperation:
        return None, True
    if rounded.adjusted() >= type_.precision - type_.scale and rounded != 0:
        return None, True
    return rounded, False


def booleans(array: pa.Array) -> Parsed:
    text = pc.utf8_lower(_trimmed(array))
    true, false = pc.is_in(text, pa.array(_TRUE)), pc.is_in(text, pa.array(_FALSE))
    known_word = pc.if_else(pc.is_valid(text), pc.or_(true, false), pa.scalar(None, BOOLEAN))
    bad = _malformed(known_word)
    return pc.if_else(pc.fill_null(known_word, False), true, pa.scalar(None, BOOLEAN)), bad


def _field(parts: pa.Array, index: int, default: int) -> Numbers:
    text = pc.struct_field(parts, index)
    filled = pc.if_else(pc.equal(text, ""), str(default), pc.utf8_ltrim(text, "+"))
    return numbers(pc.cast(pc.fill_null(filled, str(default)), BIGINT))


def dates(array: pa.Array) -> Parsed:
    """`yyyy`, `yyyy-m`, `yyyy-m-d`, and any text after a blank or T that follows the day."""
    text = _trimmed(array)
    parts = pc.extract_regex(text, _DATE)
    year, month, day = _field(parts, 0, 1970), _field(parts, 1, 1), _field(parts, 2, 1)
    good = as_bools(pc.is_valid(parts)) & valid_date(year, month, day)
    bad = ~good & as_bools(pc.is_valid(array))
    days = np.where(good, days_from(year, np.clip(month, 1, 12), day), 0)
    return rebuilt(days, pa.date32(), ~good), pa.array(bad) if bad.any() else None


def times(array: pa.Array, type_: pa.DataType, zone: str) -> Parsed:
    """`yyyy[-m[-d[ h[:m[:s[.f][zone]]]]]]`, with T or a blank before the hour."""
    text = _trimmed(array)
    parts = pc.extract_regex(text, _TIME)
    year, month, day, hour, minute, second = (_field(parts, i, d) for i, d in enumerate((1970, 1, 1, 0, 0, 0)))
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.struct_field(parts, 6), 0, 6), 6, "0")
    micros = numbers(pc.cast(pc.fill_null(fraction, "0"), BIGINT))
    good = as_bools(pc.is_valid(parts)) & valid_date(year, month, day)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    days = np.where(good, days_from(year, np.clip(month, 1, 12), day), 0)
    clock = days * DAY + ((hour * 60 + minute) * 60 + second) * SECOND + micros
    zones = pc.utf8_trim(pc.struct_field(parts, 7), _BLANK)
    if type_ == TIMESTAMP_NTZ:
        result = clock
    else:
        result, zone_good = _instants(clock, zones, zone)
        good &= zone_good
    bad = ~good & as_bools(pc.is_valid(array))
    return rebuilt(np.where(good, result, 0), type_, ~good), pa.array(bad) if bad.any() else None


def _instants(clock: Numbers, zones: pa.Array, zone: str) -> tuple[Numbers, Numbers]:
    """Local times as instants, in the zone given in the text, else in the session time zone."""
    good = np.ones(len(clock), bool)
    written = pc.unique(pc.fill_null(zones, "")).to_pylist()
    if written in ([""], []):
        return numbers(instant(rebuilt(clock, TIMESTAMP_NTZ), zone)), good
    result = np.zeros(len(clock), np.int64)
    for name in written:
        here = as_bools(pc.equal(pc.fill_null(zones, ""), name))
        use = zone if name == "" else java_zone(name)
        if use is None:
            good &= ~here
            continue
        result[here] = numbers(instant(rebuilt(clock[here], TIMESTAMP_NTZ), use))
    return result, good
