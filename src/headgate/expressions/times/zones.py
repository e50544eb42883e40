"""Conversions between instants and local times as java.time does them, with daylight saving time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import EvaluationError
from headgate.expressions.times.calendar import civil, days_from, leap
from headgate.graph.types import TIMESTAMP, TIMESTAMP_NTZ

SECOND = 1_000_000
DAY = 86_400 * SECOND
# The common ones of Java's ZoneId.SHORT_IDS.
_SHORT_ZONES = {
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "JST": "Asia/Tokyo",
    "IST": "Asia/Kolkata",
    "ECT": "Europe/Paris",
    "AET": "Australia/Sydney",
    "CTT": "Asia/Shanghai",
    "BST": "Asia/Dhaka",
}


@lru_cache(maxsize=1024)
def known(zone: str) -> bool:
    """Whether Arrow knows the time zone."""
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("us", zone)))
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _checked(zone: str) -> str:
    if not known(zone):
        raise EvaluationError("INVALID_TIMEZONE", f"The timezone: {zone} is invalid.")
    return zone


_LAST_YEAR = 2037  # compiled tzdata ends here; Java continues with the last rule, Arrow does not


def _repeats(micros: Numbers) -> Numbers | None:
    """The distance from times after 2036 back to an earlier year with the same calendar, else 0; None if all are 0."""
    if not len(micros) or int(micros.max()) < _AFTER:
        return None
    late = micros >= _AFTER
    year = civil(np.where(late, micros, 0) // DAY)[0]
    one = np.ones_like(year)
    start = days_from(year, one, one)
    # Among 28 consecutive years without a skipped leap year, one has the same weekdays and length.
    kinds = {(int(s + 3) % 7, bool(leap(y))): int(s) for y, s in zip(_CYCLE, _CYCLE_STARTS, strict=True)}
    table = np.array([[kinds[(w, long)] for long in (False, True)] for w in range(7)])
    return np.where(late, (start - table[(start + 3) % 7, leap(year).astype(int)]) * DAY, 0)


_CYCLE = np.arange(_LAST_YEAR - 28, _LAST_YEAR)
_CYCLE_STARTS = days_from(_CYCLE, np.ones_like(_CYCLE), np.ones_like(_CYCLE))
_AFTER = int(days_from(np.array([_LAST_YEAR]), np.array([1]), np.array([1]))[0]) * DAY


def local(instants: pa.Array, zone: str) -> pa.Array:
    """TIMESTAMP as the wall-clock time in a zone (TIMESTAMP_NTZ); an empty zone is UTC."""
    if not zone:
        return instants.view(TIMESTAMP_NTZ)
    back = _repeats(numbers(instants))
    if back is not None:
        near = rebuilt(numbers(instants) - back, TIMESTAMP, nulls(instants))
        return rebuilt(numbers(_local(near, zone)) + back, TIMESTAMP_NTZ, nulls(instants))
    return _local(instants, zone)


def _local(instants: pa.Array, zone: str) -> pa.Array:
    return pc.local_timestamp(instants.view(pa.timestamp("us", _checked(zone))))


def instant(times: pa.Array, zone: str) -> pa.Array:
    """Local times (TIMESTAMP_NTZ) as instants: the earlier of two; a time that clocks skip moves forward by the gap."""
    if not zone:
        return times.view(TIMESTAMP)
    back = _repeats(numbers(times))
    if back is not None:
        near = rebuilt(numbers(times) - back, TIMESTAMP_NTZ, nulls(times))
        return rebuilt(numbers(_instant(near, zone)) + back, TIMESTAMP, nulls(times))
    return _instant(times, zone)


def instant_with_offset(times: pa.Array, zone: str, offset: Numbers) -> pa.Array:
    """As `instant`, but of two instants the one with the given offset, as java.time does when it moves a time."""
    found = instant(times, zone)
    if not zone:
        return found
    missing = nulls(times)
    same = rebuilt(numbers(times) - offset, TIMESTAMP, missing)
    return rebuilt(
        np.where(numbers(local(same, zone)) == numbers(times), numbers(same), numbers(found)), TIMESTAMP, missing
    )


def _instant(times: pa.Array, zone: str) -> pa.Array:
    found = pc.assume_timezone(times, _checked(zone), ambiguous="earliest", nonexistent="earliest")
    shown = numbers(pc.local_timestamp(found))
    wanted, instants = numbers(times), numbers(found)
    skipped = shown != wanted
    if skipped.any():
        # `earliest` gives the last moment before the gap, where the offset before the gap is in force.
        instants = np.where(skipped, wanted - _whole_seconds(shown - instants), instants)
    return rebuilt(instants, TIMESTAMP, nulls(times))


def _whole_seconds(offset: Numbers) -> Numbers:
    return np.round(offset / SECOND).astype(np.int64) * SECOND


def wall_clock(times: pa.Array, zone: str) -> pa.Array:
    """Local time: TIMESTAMP in the zone, TIMESTAMP_NTZ unchanged, DATE at midnight."""
    if times.type == TIMESTAMP:
        return local(times, zone)
    if times.type == TIMESTAMP_NTZ:
        return times
    return rebuilt(numbers(times).astype(np.int64) * DAY, TIMESTAMP_NTZ, nulls(times))


def date_of(times: pa.Array, zone: str) -> pa.Array:
    """The local date of a time."""
    clock = wall_clock(times, zone)
    return rebuilt(numbers(clock) // DAY, pa.date32(), nulls(times))


def java_zone(name: str) -> str | None:
    """Arrow's name of a zone in the syntax of java.time.ZoneId (`Z`, `UTC+2`, `+5:30`, `Europe/Berlin`), or None.

    >>> java_zone("UTC+2"), java_zone("Z"), java_zone("Mars")
    ('+02:00', '', None)
    """
    if name in ("Z", "UTC", "GMT", "UT"):
        return ""
    offset = name
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith((prefix + "+", prefix + "-")):
            offset = name[len(prefix) :]
            break
    if offset[0] in "+-":
        hours, _, minutes = offset[1:].partition(":")
        if not minutes and len(hours) == 4:
            hours, minutes = hours[:2], hours[2:]
        if not hours.isdigit() or not (minutes or "0").isdigit() or len(hours) > 2 or len(minutes) > 2:
            return None
        if int(hours) > 18 or int(minutes or 0) > 59:
            return None
        return f"{offset[0]}{int(hours):02}:{int(minutes or 0):02}"
    name = _SHORT_ZONES.get(name, name)
    return name if known(name) else None
