"""Constants in SQL text as literals of the graph: numbers, texts, dates, times and intervals."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.sql.dialect import start
from headgate.sql.durations import BadDuration, duration, number_of, span
from headgate.sql.errors import Script

_INT_MAX = 2**31
_BIGINT_MAX = 2**63
_DATE = re.compile(r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_ZONE = re.compile(r"\s*(Z|UTC|GMT|[A-Za-z]+/[A-Za-z_/]+|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?)$")
# Functions that give an interval of the type that their arguments have.
_SAME_INTERVAL = frozenset(("negative", "positive", "abs", "add", "subtract", "case", "coalesce", "greatest", "least"))
_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def number(text: str, script: Script, at: int) -> Literal:
    """A number as Spark types it: INT, BIGINT or DECIMAL by size; with a point DECIMAL; with an exponent DOUBLE.

    >>> number("1.50", Script("", ""), 0).type
    Decimal128Type(decimal128(3, 2))
    """
    if re.fullmatch(r"\d+", text):
        value = int(text)
        if value < _INT_MAX:
            return Literal(t.INT, value)
        if value < _BIGINT_MAX:
            return Literal(t.BIGINT, value)
        return _decimal(text, script, at)
    if re.fullmatch(r"\d*\.?\d*[eE][+-]?\d+", text):
        return Literal(t.DOUBLE, float(text))
    if re.fullmatch(r"\d*\.\d*", text) and text != ".":
        return _decimal(text, script, at)
    raise script.error(f"{text} is not a number", at)


def _decimal(text: str, script: Script, at: int) -> Literal:
    value = Decimal(text)
    digits = value.as_tuple()
    exponent = digits.exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    precision = max(len(digits.digits), scale)
    if precision > 38:
        raise script.error(f"{text} has more than 38 digits; write it as a DOUBLE, for example 1e40", at)
    return Literal(pa.decimal128(max(precision, 1), scale), value)


def string(text: str) -> Literal:
    """A string constant."""
    return Literal(t.STRING, text)


def binary(text: str, script: Script, at: int) -> Literal:
    """X'1F'."""
    try:
        return Literal(t.BINARY, bytes.fromhex(text if len(text) % 2 == 0 else "0" + text))
    except ValueError:
        raise script.error(f"X'{text}' is not hexadecimal", at) from None


class Days(timedelta):
    """The value of INTERVAL n DAY. A DATE moved by days stays a DATE; 24 hours make it a TIMESTAMP (`is_days`)."""

    def __repr__(self) -> str:
        return repr(timedelta(self.days))  # so that one length has one spelling, wherever no date is moved

    def __neg__(self) -> timedelta:
        return Days(-self.days)

    def __add__(self, other: timedelta) -> timedelta:
        return Days(self.days + other.days) if isinstance(other, Days) else super().__add__(other)

    def __sub__(self, other: timedelta) -> timedelta:
        return Days(self.days - other.days) if isinstance(other, Days) else super().__sub__(other)


def is_days(expr: Expr) -> bool:
    """Whether an interval is one of days alone: Spark's type INTERVAL DAY, which we have no Arrow type for.

    >>> is_days(Literal(t.INTERVAL, Days(1))), is_days(Literal(t.INTERVAL, timedelta(hours=24)))
    (True, False)
    """
    if isinstance(expr, Literal):
        return isinstance(expr.value, Days)
    if not isinstance(expr, Call):
        return False
    if expr.name == "subtract" and all(arg.type == t.DATE for arg in expr.args):
        return True
    values = expr.args[1::2] + expr.args[-1:] if expr.name == "case" else expr.args
    return expr.name in _SAME_INTERVAL and all(is_days(arg) for arg in values)


def interval(node: exp.Interval, script: Script) -> Literal:
    """INTERVAL '5' SECOND, INTERVAL '1 hour 30 minutes', INTERVAL '1:30' MINUTE TO SECOND."""
    value, unit = node.this, node.args.get("unit")
    negative = isinstance(value, exp.Neg)
    value = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(value, exp.Literal):
        message = "an interval is written with constants, as in INTERVAL 5 SECONDS; multiply one by a column instead"
        raise script.error(message, start(node))
    try:
        if isinstance(unit, exp.IntervalSpan):
            size = span(value.name, unit.this.name, unit.expression.name)
        elif unit is not None:
            size = number_of(value.name, unit.name)
        else:
            size = duration(value.name)
    except BadDuration as problem:
        raise script.error(str(problem), start(node)) from None
    length = timedelta(microseconds=-size if negative else size)
    return Literal(t.INTERVAL, Days(length.days) if _in_days(value.name, unit) else length)


def _in_days(text: str, unit: exp.Expr | None) -> bool:
    """Whether an interval is written in days and weeks alone."""
    if isinstance(unit, exp.IntervalSpan):
        return False
    words = [unit.name] if unit is not None else re.findall(r"[A-Za-z]+", re.sub(r"(?i)^\s*interval\b", "", text))
    return all(word.lower().removesuffix("s") in ("day", "week") for word in words)


def months(node: exp.Interval, script: Script) -> int | None:
    """The months of INTERVAL 2 YEARS, '1 year 2 months' or '1-2' YEAR TO MONTH; None if it is no calendar interval."""
    value, unit = node.this, node.args.get("unit")
    negative = isinstance(value, exp.Neg)
    value = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(value, exp.Literal):
        return None
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        if (unit.this.name.upper(), unit.expression.name.upper()) != ("YEAR", "MONTH"):
            return None
        match = re.fullmatch(r"([+-]?)(\d{1,6})-(\d{1,2})", text)
        if match is None:
            raise script.error(f"'{text}' is not an interval YEAR TO MONTH; write for example '1-2'", start(node))
        size = (12 * int(match[2]) + int(match[3])) * (-1 if match[1] == "-" else 1)
    else:
        found = _calendar(f"{text} {unit.name}" if unit is not None else text)
        if found is None:
            return None
        size = found
    size = -size if negative else size
    if abs(size) >= _INT_MAX:
        raise script.error("this interval is too long", start(node))
    return size


def _calendar(text: str) -> int | None:
    """Whole months and years as months, if the text holds nothing else."""
    parts = re.findall(r"([+-]?\d+)\s*(year|month)s?", text, re.IGNORECASE)
    if not parts or re.sub(r"[+-]?\d+\s*(year|month)s?", "", text, flags=re.IGNORECASE).strip():
        return None
    return sum(int(count) * (12 if word.lower() == "year" else 1) for count, word in parts)


def as_date(text: str) -> date | None:
    """A text as a DATE, by Spark's formats; None if it is none."""
    body = text.strip()
    match = _DATE.match(body)
    if match is None:
        return None
    rest = body[match.end() :]
    if rest and (match[3] is None or rest[0] not in " T"):
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def as_timestamp(text: str, zone: str) -> datetime | None:
    """A text as an instant; without a zone of its own it is local time in `zone`.

    >>> as_timestamp("2024-01-01 12:00:00", "Europe/Berlin").isoformat()
    '2024-01-01T11:00:00+00:00'
    """
    read = _local(text)
    if read is None:
        return None
    local, own = read
    try:
        if own is not None:
            offset = _offset(own)
            if offset is not None:
                return (local - offset).replace(tzinfo=UTC)
            zone = own
        return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError, KeyError, OSError):
        return None


def as_timestamp_ntz(text: str) -> datetime | None:
    """A text as a time without a zone."""
    read = _local(text)
    return None if read is None or read[1] is not None else read[0]


def cast_text(text: str, target: Any, zone: str) -> Literal | None:
    """A text cast to a date or time, or None if this is not such a cast or the text is none."""
    value: date | datetime | None = None
    if target == t.DATE:
        value = as_date(text)
    elif target == t.TIMESTAMP:
        value = as_timestamp(text, zone)
    elif target == t.TIMESTAMP_NTZ:
        value = as_timestamp_ntz(text)
    return None if value is None else Literal(target, value)


def _local(text: str) -> tuple[datetime, str | None] | None:
    body = text.strip()
    match = _DATE.match(body)
    if match is None or (match[3] is None and match.end() != len(body)):
        return None
    rest = body[match.end() :]
    zone: str | None = None
    clock = (0, 0, 0, 0)
    if rest:
        if rest[0] not in " T":
            return None
        time = _CLOCK.match(rest, 1)
        if time is None:
            return None
        tail = rest[time.end() :]
        if tail:
            found = _ZONE.fullmatch(tail)
            if found is None:
                return None
            zone = found[1]
        fraction = int(((time[4] or "") + "000000")[:6])
        clock = (int(time[1]), int(time[2]), int(time[3] or 0), fraction)
    try:
        return datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1), *clock), zone
    except ValueError:
        return None


def _offset(zone: str) -> timedelta | None:
    if zone in ("Z", "UTC", "GMT"):
        return timedelta(0)
    match = _FIXED.fullmatch(zone)
    if match is None:
        return None
    size = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return -size if match[1] == "-" else size
