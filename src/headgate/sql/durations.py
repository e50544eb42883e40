"""Durations as Spark writes them ('10 seconds', INTERVAL '1:30' MINUTE TO SECOND), in microseconds."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_UNITS = {
    "microsecond": Decimal(1),
    "millisecond": Decimal(1_000),
    "second": Decimal(1_000_000),
    "minute": Decimal(60_000_000),
    "hour": Decimal(3_600_000_000),
    "day": Decimal(86_400_000_000),
    "week": Decimal(7 * 86_400_000_000),
}
_SHORT = {"ms": "millisecond", "us": "microsecond", "s": "second", "min": "minute", "h": "hour"}
_CALENDAR = {"month", "year", "quarter"}
_PART = re.compile(r"\s*([+-]?\s*\d*\.?\d+)\s*([a-zA-Z]+)\s*")
_FIELDS = ("day", "hour", "minute", "second")


class BadDuration(ValueError):
    """A text that is not a duration; the message says why and what one looks like."""


def unit(word: str, short: bool = False) -> Decimal:
    """How many microseconds a unit has, singular or plural; `short` also takes ms, s, min.

    >>> unit("Seconds"), unit("ms", short=True)
    (Decimal('1000000'), Decimal('1000'))
    """
    name = word.lower()
    name = _SHORT.get(name, name) if short else name
    name = name if name in _UNITS or name in _CALENDAR else name.removesuffix("s")
    if name in _CALENDAR:
        raise BadDuration(f"{word} has no fixed length; write days, or add_months(…) for a date")
    if name not in _UNITS:
        raise BadDuration(f"unknown unit {word} in a duration; write for example '10 seconds'")
    return _UNITS[name]


def duration(text: str, short: bool = False) -> int:
    """The microseconds of a duration of one or more numbers with units, as Spark takes them; `short` as in `unit`.

    >>> duration("1 hour 30 minutes"), duration("500 ms", short=True)
    (5400000000, 500000)
    """
    rest = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    total, at = Decimal(0), 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise BadDuration(f"'{text}' is not a duration; write for example '10 seconds'")
        total += Decimal(part[1].replace(" ", "")) * unit(part[2], short)
        at = part.end()
    if not rest.strip():
        raise BadDuration("a duration is empty; write for example '10 seconds'")
    return _whole(total, text)


def number_of(count: str, word: str) -> int:
    """The microseconds of one number with a unit.

    >>> number_of("-1.5", "SECOND")
    -1500000
    """
    try:
        value = Decimal(count.strip())
    except InvalidOperation:
        raise BadDuration(f"'{count}' is not a number of {word.lower()}") from None
    return _whole(value * unit(word), f"{count} {word}")


def span(text: str, first: str, last: str) -> int:
    """The microseconds of an interval literal such as '1 10:30:40.5' DAY TO SECOND.

    >>> span("10:30", "MINUTE", "SECOND")
    630000000
    """
    low, high = first.lower(), last.lower()
    if low not in _FIELDS or high not in _FIELDS or _FIELDS.index(low) >= _FIELDS.index(high):
        raise BadDuration(f"{first.upper()} TO {last.upper()} is not supported; write DAY, HOUR, MINUTE TO SECOND")
    names = _FIELDS[_FIELDS.index(low) : _FIELDS.index(high) + 1]
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    numbers = re.split(r"[ :]+", body.lstrip("+-").strip())
    if len(numbers) != len(names) or not all(re.fullmatch(r"\d+(\.\d+)?", n) for n in numbers):
        raise BadDuration(f"'{text}' is not an interval {first.upper()} TO {last.upper()}")
    return sign * sum(number_of(n, name) for n, name in zip(numbers, names, strict=True))


def spoken(microseconds: int) -> str:
    """A duration as a user would write it.

    >>> spoken(5_000_000), spoken(1500)
    ('5 seconds', '1500 microseconds')
    """
    for name in ("day", "hour", "minute", "second", "millisecond"):
        size = int(_UNITS[name])
        if microseconds % size == 0 and microseconds:
            count = microseconds // size
            return f"{count} {name}{'' if abs(count) == 1 else 's'}"
    return f"{microseconds} microseconds"


def _whole(value: Decimal, text: str) -> int:
    if not value.is_finite() or abs(value) >= 2**62:
        raise BadDuration(f"'{text}' is too long for a duration")
    return int(value)
