"""Constants in SQL text as literals of the graph: numbers, times of day and bytes; intervals are in `intervals`."""

from __future__ import annotations

import math
import re
import string
from datetime import time
from decimal import Decimal

import pyarrow as pa

from headgate.graph import types as t
from headgate.graph.expressions import Literal
from headgate.sql.errors import Script

_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(e[+-]?\d+)?(BD|[YSLFD])?", re.IGNORECASE)
_INTEGERS = {"Y": t.TINYINT, "S": t.SMALLINT, "L": t.BIGINT}
_TIME_LITERAL = re.compile(r"TIME\s*['\"]", re.IGNORECASE)
_CLOCK = re.compile(r"\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,6}))?)?\s*")
_NAMES = tuple("_" + string.ascii_letters + string.digits)


def number(text: str, script: Script, at: int) -> Literal:
    """A number as Spark types it: by its suffix; else INT, BIGINT or DECIMAL by size, with a point DECIMAL, with an
    exponent DOUBLE. A minus belongs to the number: -128Y is a TINYINT, although 128Y is not.

    >>> number("1.50", Script("", ""), 0).type, number("-128Y", Script("", ""), 0).value
    (Decimal128Type(decimal128(3, 2)), -128)
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise script.error(f"{text} is not a number", at)
    digits, exponent, suffix = match[1], match[2] or "", (match[3] or "").upper()
    whole = not exponent and "." not in digits
    if suffix in _INTEGERS:
        if not whole:
            raise script.error(f"{text} is not a number", at)
        return _in_range(int(digits), _INTEGERS[suffix], text, script, at)
    if suffix in ("F", "D") or (exponent and not suffix):
        return _floating(digits + exponent, t.FLOAT if suffix == "F" else t.DOUBLE, text, script, at)
    if not whole or suffix == "BD":
        return _decimal(digits + exponent, script, at)
    fitting = next((type_ for type_ in (t.INT, t.BIGINT) if _fits(int(digits), type_)), None)
    return Literal(fitting, int(digits)) if fitting is not None else _decimal(digits, script, at)


def suffixed(script: Script, at: int) -> str | None:
    """The number with a suffix (128Y, 1.5BD) at an offset of the text; None if there is none."""
    match = _NUMBER.match(script.text, at)
    return match[0] if match is not None and match[3] and script.text[match.end() :][:1] not in _NAMES else None


def _fits(value: int, type_: pa.DataType) -> bool:
    limit: int = 1 << (type_.bit_width - 1)
    return -limit <= value < limit


def _in_range(value: int, type_: pa.DataType, text: str, script: Script, at: int) -> Literal:
    if not _fits(value, type_):
        raise script.error(f"{text} is out of the range of {t.sql_name(type_)}", at)
    return Literal(type_, value)


def _floating(digits: str, type_: pa.DataType, text: str, script: Script, at: int) -> Literal:
    value = pa.scalar(float(digits), t.DOUBLE).cast(type_, safe=False).as_py()
    if math.isinf(value):
        raise script.error(f"{text} is out of the range of {t.sql_name(type_)}", at)
    return Literal(type_, value)


def _decimal(text: str, script: Script, at: int) -> Literal:
    value = Decimal(text)
    exponent = int(value.as_tuple().exponent)
    precision = max(len(value.as_tuple().digits) + max(exponent, 0), -exponent)
    if precision > 38:
        raise script.error(f"{text} has more than 38 digits; write it as a DOUBLE, for example 1e40", at)
    return Literal(pa.decimal128(precision, max(-exponent, 0)), value if exponent <= 0 else Decimal(int(value)))


def binary(text: str, script: Script, at: int) -> Literal:
    """X'1F'."""
    try:
        return Literal(t.BINARY, bytes.fromhex(text if len(text) % 2 == 0 else "0" + text))
    except ValueError:
        raise script.error(f"X'{text}' is not hexadecimal", at) from None


def is_time_literal(script: Script, at: int) -> bool:
    """Whether a TIME literal such as TIME '12:00:00' is at an offset of the text."""
    return _TIME_LITERAL.match(script.text, at) is not None


def time_of_day(text: str, script: Script, at: int) -> Literal:
    """TIME '12:30:00.5', to the microsecond.

    >>> time_of_day("12:30", Script("", ""), 0).value
    datetime.time(12, 30)
    """
    match = _CLOCK.fullmatch(text)
    try:
        if match is not None:
            fraction = int(((match[4] or "") + "000000")[:6])
            return Literal(t.TIME, time(int(match[1]), int(match[2]), int(match[3] or 0), fraction))
    except ValueError:
        pass
    raise script.error(f"'{text}' is not a TIME; write for example '12:30:00.5'", at)
