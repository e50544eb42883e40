"""Durations as Spark writes them ('10 seconds', '1 hour 30 minutes'), in microseconds."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_SHORT = {"ms": "millisecond", "us": "microsecond", "s": "second", "min": "minute", "h": "hour"}
_CALENDAR = {"month", "year", "quarter"}
_PART = re.compile(r"\s*([+-]?)\s*(\d+\.?\d*|\.\d+)(\s*)([a-zA-Z]+)(?:\s+|$)")
_EXAMPLE = "write for example '10 seconds'"


class BadDuration(ValueError):
    """A text that is not a duration; the message says why and shows one."""


def duration(text: str, short: bool = False) -> int:
    """The microseconds of a duration of one or more numbers with units; `short` also takes 1.5h, 500ms, 2 min.

    >>> duration("1 hour 30 minutes"), duration("500 ms", short=True)
    (5400000000, 500000)
    """
    size = total(parts(text, short))
    if abs(size) >= 2**62:
        raise BadDuration(f"'{text}' is too long for a duration")
    return size


def parts(text: str, short: bool = False) -> list[tuple[Decimal, str]]:
    """The numbers of a duration with their units, as Spark reads them: only seconds have a fraction.

    >>> parts("1 day -2.5 Seconds")
    [(Decimal('1'), 'day'), (Decimal('-2.5'), 'second')]
    """
    body = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    if not body.strip():
        raise BadDuration(f"a duration is empty; {_EXAMPLE}")
    found, at = [], 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or not (part[3] or short):
            raise BadDuration(f"'{text}' is not a duration; {_EXAMPLE}")
        number, name = Decimal(part[1] + part[2]), _unit(part[4], short)
        _check_fraction(part[2], name, text, short)
        found.append((number, name))
        at = part.end()
    return found


def total(found: list[tuple[Decimal, str]]) -> int:
    """The microseconds of all parts together."""
    return int(sum(number * _UNITS[name] for number, name in found))


def spoken(microseconds: int) -> str:
    """A duration as a user would write it.

    >>> spoken(5_000_000), spoken(1500)
    ('5 seconds', '1500 microseconds')
    """
    for name in ("day", "hour", "minute", "second", "millisecond"):
        size = _UNITS[name]
        if microseconds % size == 0 and microseconds:
            count = microseconds // size
            return f"{count} {name}{'' if abs(count) == 1 else 's'}"
    return f"{microseconds} microseconds"


def _unit(word: str, short: bool) -> str:
    """The name of a unit, singular or plural."""
    name = word.lower()
    name = _SHORT.get(name, name) if short else name
    name = name if name in _UNITS or name in _CALENDAR else name.removesuffix("s")
    if name in _CALENDAR:
        raise BadDuration(f"{word} has no fixed length; write days, or add_months(…) for a date")
    if name not in _UNITS:
        raise BadDuration(f"unknown unit {word} in a duration; {_EXAMPLE}")
    return name


def _check_fraction(number: str, unit: str, text: str, short: bool) -> None:
    fraction = number.partition(".")[2]
    if short or not fraction:
        return
    if unit != "second":
        raise BadDuration(f"'{text}': only seconds have a fraction; write a smaller unit")
    if len(fraction) > 9:
        raise BadDuration(f"'{text}' has more than 9 digits after the point")
