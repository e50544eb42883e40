"""Durations as text for users."""

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("µs", 1))


def short_duration(micros: int) -> str:
    """A duration in its largest whole unit.

    >>> short_duration(10_000_000), short_duration(1_500_000), short_duration(-60_000_000)
    ('10 s', '1500 ms', '-1 min')
    """
    for unit, size in _UNITS:
        if micros and micros % size == 0:
            return f"{micros // size if micros > 0 else -(-micros // size)} {unit}"
    return "0 s"
