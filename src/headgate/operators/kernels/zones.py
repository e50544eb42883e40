"""Instants and local times: conversions in a time zone as java.time does them, daylight saving included."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.types import TIMESTAMP, TIMESTAMP_NTZ
from headgate.operators.kernels.buffers import Numbers, nulls, numbers, rebuilt
from headgate.operators.kernels.errors import EvaluationError

SECOND = 1_000_000
DAY = 86_400 * SECOND


@lru_cache(maxsize=1024)
def known(zone: str) -> bool:
    """Whether the zone can be used."""
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("us", zone)))
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _checked(zone: str) -> str:
    if not known(zone):
        raise EvaluationError("INVALID_TIMEZONE", f"The timezone: {zone} is invalid.")
    return zone


def local(instants: pa.Array, zone: str) -> pa.Array:
    """TIMESTAMP as the wall-clock time in a zone (TIMESTAMP_NTZ); an empty zone is UTC."""
    if not zone:
        return instants.view(TIMESTAMP_NTZ)
    return pc.local_timestamp(instants.view(pa.timestamp("us", _checked(zone))))


def instant(times: pa.Array, zone: str) -> pa.Array:
    """Wall-clock times (TIMESTAMP_NTZ) as instants: of two the earlier; one that clocks skip moves on by the gap."""
    if not zone:
        return times.view(TIMESTAMP)
    found = pc.assume_timezone(times, _checked(zone), ambiguous="earliest", nonexistent="earliest")
    back = numbers(pc.local_timestamp(found))
    wanted, instants = numbers(times), numbers(found)
    skipped = back != wanted
    if skipped.any():
        # `earliest` gave the last moment before the gap: what holds there is the offset before the gap.
        instants = np.where(skipped, wanted - _whole_seconds(back - instants), instants)
    return rebuilt(instants, TIMESTAMP, nulls(times))


def _whole_seconds(offset: Numbers) -> Numbers:
    return np.round(offset / SECOND).astype(np.int64) * SECOND


def wall_clock(times: pa.Array, zone: str) -> pa.Array:
    """What the clock shows: TIMESTAMP in the zone, TIMESTAMP_NTZ as it is, DATE at midnight."""
    if times.type == TIMESTAMP:
        return local(times, zone)
    if times.type == TIMESTAMP_NTZ:
        return times
    return rebuilt(numbers(times).astype(np.int64) * DAY, TIMESTAMP_NTZ, nulls(times))


def date_of(times: pa.Array, zone: str) -> pa.Array:
    """The local date of a time."""
    clock = wall_clock(times, zone)
    return rebuilt(numbers(clock) // DAY, pa.date32(), nulls(times))
