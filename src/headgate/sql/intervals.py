"""Day-time intervals: the fields of their Spark type, their text, and INTERVAL literals."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.sql.dialect import start
from headgate.sql.durations import BadDuration, parts, total
from headgate.sql.errors import Script

FIELDS = ("day", "hour", "minute", "second")
WHOLE = ("day", "second")
_FIELD_OF = {"week": "day", "millisecond": "second", "microsecond": "second"}
_MOST = {"hour": 23, "minute": 59, "second": 59}
_SECONDS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_INT_MAX = 2**31
_BIGINT_MAX = 2**63
# Functions whose interval has the fields of all their arguments together.
_SAME_FIELDS = frozenset(("negative", "positive", "abs", "add", "subtract", "case", "coalesce", "greatest", "least"))


class DayTimeInterval(timedelta):
    """The value of an interval literal, with the first and last field of its Spark type.

    Arrow has one type for all of them. The fields decide whether a DATE plus the interval stays a DATE, which parts
    EXTRACT takes, and how the interval is written as text. A plain timedelta is an INTERVAL DAY TO SECOND.
    """

    fields: tuple[str, str] = WHOLE

    @classmethod
    def of(cls, length: timedelta, fields: tuple[str, str]) -> DayTimeInterval:
        made = cls(length.days, length.seconds, length.microseconds)
        made.fields = fields
        return made

    def __repr__(self) -> str:
        # Expressions that differ only in the fields of a literal are shared.
        return repr(timedelta(self.days, self.seconds, self.microseconds))

    def __neg__(self) -> timedelta:
        return DayTimeInterval.of(super().__neg__(), self.fields)


def fields_of(value: timedelta) -> tuple[str, str]:
    """The first and last field of an interval's type.

    >>> fields_of(timedelta(days=1)), fields_of(DayTimeInterval.of(timedelta(days=1), ("day", "day")))
    (('day', 'second'), ('day', 'day'))
    """
    return value.fields if isinstance(value, DayTimeInterval) else WHOLE


def joined(fields: list[tuple[str, str]]) -> tuple[str, str]:
    """The smallest range of fields that holds all of these ranges.

    >>> joined([("day", "day"), ("hour", "minute")])
    ('day', 'minute')
    """
    return min((first for first, _ in fields), key=FIELDS.index), max((last for _, last in fields), key=FIELDS.index)


def interval_fields(expr: Expr) -> tuple[str, str]:
    """The fields of the Spark type of an expression that is an interval.

    >>> interval_fields(Literal(t.INTERVAL, DayTimeInterval.of(timedelta(1), ("day", "day"))))
    ('day', 'day')
    """
    if isinstance(expr, Literal) and isinstance(expr.value, timedelta):
        return fields_of(expr.value)
    if not isinstance(expr, Call):
        return WHOLE
    if expr.name == "subtract" and all(arg.type == t.DATE for arg in expr.args):
        return ("day", "day")
    values = expr.args[1::2] + expr.args[-1:] if expr.name == "case" else expr.args
    given = [interval_fields(arg) for arg in values if arg.type == t.INTERVAL]
    return joined(given) if expr.name in _SAME_FIELDS and given else WHOLE


def interval_text(value: timedelta) -> str:
    """An interval as Spark writes it: in CAST(… AS STRING), in JSON, and as a literal.

    >>> interval_text(timedelta(days=-1, hours=22)), interval_text(number_interval("90.5", "SECOND"))
    ("INTERVAL '-0 02:00:00' DAY TO SECOND", "INTERVAL '90.5' SECOND")
    """
    first, last = fields_of(value)
    rest, fraction = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    text = ""
    for field in FIELDS[FIELDS.index(first) : FIELDS.index(last) + 1]:
        count, rest = divmod(rest, _SECONDS[field])
        text += (
            "" if field == first else " " if field == "hour" else ":"
        ) + f"{count:{'' if field == 'day' else '02'}}"
    if last == "second" and fraction:
        text += f".{fraction:06}".rstrip("0")
    name = first.upper() if first == last else f"{first.upper()} TO {last.upper()}"
    return f"INTERVAL '{'-' if value < timedelta(0) else ''}{text}' {name}"


def interval(node: exp.Interval, script: Script) -> Literal:
    """INTERVAL 3 DAY 1 SECOND, INTERVAL '1 hour 30 minutes', INTERVAL '1:30' MINUTE TO SECOND."""
    text, negative = _constant(node)
    if text is None:
        message = "an interval is written with constants, as in INTERVAL 5 SECONDS; multiply one by a column instead"
        raise script.error(message, start(node))
    unit = node.args.get("unit")
    try:
        if isinstance(unit, exp.IntervalSpan):
            value = _span(text, unit.this.name, unit.expression.name)
        elif unit is not None:
            value = number_interval(text, unit.name)
        else:
            value = _from_parts(text)
    except BadDuration as problem:
        raise script.error(str(problem), start(node)) from None
    return Literal(t.INTERVAL, -value if negative else value)


def months(node: exp.Interval, script: Script) -> int | None:
    """The months of INTERVAL 2 YEARS, '1 year 2 months' or '1-2' YEAR TO MONTH; None if it is none of these."""
    text, negative = _constant(node)
    unit = node.args.get("unit")
    if text is None:
        return None
    if isinstance(unit, exp.IntervalSpan):
        if (unit.this.name.upper(), unit.expression.name.upper()) != ("YEAR", "MONTH"):
            return None
        match = re.fullmatch(r"\s*([+-]?)(\d{1,9})-(0?\d|1[01])\s*", text)
        if match is None:
            raise script.error(f"'{text}' is not an interval YEAR TO MONTH; write for example '1-2'", start(node))
        size = (12 * int(match[2]) + int(match[3])) * (-1 if match[1] == "-" else 1)
    else:
        found = _calendar(f"{text} {unit.name}" if unit is not None else text)
        if found is None:
            return None
        size = found
    size = -size if negative else size
    if not -_INT_MAX <= size < _INT_MAX:
        raise script.error("this interval is too long", start(node))
    return size


def number_interval(count: str, word: str) -> DayTimeInterval:
    """An interval of one number and its unit.

    >>> number_interval("-1.5", "SECOND").fields
    ('second', 'second')
    """
    if not re.fullmatch(r"\s*[+-]?\s*(\d+\.?\d*|\.\d+)\s*", count):
        raise BadDuration(f"'{count}' is not a number of {word.lower()}")
    return _from_parts(f"{count} {word}")


def _constant(node: exp.Interval) -> tuple[str | None, bool]:
    """The text of an interval literal and whether a minus stands before it; None if it is not a constant."""
    value: Any = node.this
    negative = isinstance(value, exp.Neg)
    value = value.this if negative else value
    return (value.name if isinstance(value, exp.Literal) else None), negative


def _from_parts(text: str) -> DayTimeInterval:
    found = parts(text)
    fields = [_FIELD_OF.get(unit, unit) for _, unit in found]
    return _made(total(found), text, joined([(field, field) for field in fields]))


def _span(text: str, first: str, last: str) -> DayTimeInterval:
    """'1 10:30:40.5' DAY TO SECOND."""
    low, high = first.lower(), last.lower()
    if low not in FIELDS or high not in FIELDS or FIELDS.index(low) >= FIELDS.index(high):
        raise BadDuration(f"{first.upper()} TO {last.upper()} is not supported; write DAY, HOUR, MINUTE TO SECOND")
    names = FIELDS[FIELDS.index(low) : FIELDS.index(high) + 1]
    pattern = "".join(
        ("" if name == low else " " if name == "hour" else ":")
        + (r"(\d{1,9})" if name == low else r"(\d{1,2})")
        + (r"(\.\d{1,9})?" if name == "second" else "")
        for name in names
    )
    match = re.fullmatch(r"\s*([+-]?)" + pattern + r"\s*", text)
    counts = [int(n) for n in match.groups()[1 : len(names) + 1]] if match else []
    if match is None or any(n > _MOST[name] for n, name in zip(counts[1:], names[1:], strict=True)):
        raise BadDuration(f"'{text}' is not an interval {first.upper()} TO {last.upper()}")
    size = sum(n * _SECONDS[name] for n, name in zip(counts, names, strict=True)) * 1_000_000
    if high == "second" and match.groups()[-1]:
        size += int((match.groups()[-1][1:] + "00000")[:6])
    return _made(-size if match[1] == "-" else size, text, (low, high))


def _made(size: int, text: str, fields: tuple[str, str]) -> DayTimeInterval:
    if not -_BIGINT_MAX <= size < _BIGINT_MAX:
        raise BadDuration(f"'{text}' is too long for an interval")
    return DayTimeInterval.of(timedelta(microseconds=size), fields)


def _calendar(text: str) -> int | None:
    """Whole months and years as months, if the text holds nothing else."""
    body = re.sub(r"(?i)^\s*interval\s+", "", text)
    found = re.findall(r"([+-]?)\s*(\d+)\s+(year|month)s?\b", body, re.IGNORECASE)
    if not found or re.sub(r"[+-]?\s*\d+\s+(year|month)s?\b", "", body, flags=re.IGNORECASE).strip():
        return None
    return sum((-1 if sign == "-" else 1) * int(n) * (12 if word.lower() == "year" else 1) for sign, n, word in found)
