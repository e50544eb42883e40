"""The proleptic Gregorian calendar over numpy arrays: days since 1970 to year, month and day, and back."""

from __future__ import annotations

import numpy as np

from headgate.expressions.buffers import Numbers

_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def days_from(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days since 1970-01-01. The month is 1 to 12; the day may lie outside its month.

    >>> days_from(np.array([1970, 2024]), np.array([1, 2]), np.array([1, 29])).tolist()
    [0, 19782]
    """
    # Counts years from March, so that the leap day is the last day of its year.
    y = np.where(month <= 2, year - 1, year).astype(np.int64)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Year, month and day of days since 1970-01-01.

    >>> [int(v[0]) for v in civil(np.array([19782]))]
    [2024, 2, 29]
    """
    z = days.astype(np.int64) + 719_468
    era = z // 146_097
    of_era = z - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * of_year + 2) // 153
    day = of_year - (153 * march_month + 2) // 5 + 1
    month = np.where(march_month < 10, march_month + 3, march_month - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def leap(year: Numbers) -> Numbers:
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def month_length(year: Numbers, month: Numbers) -> Numbers:
    """Days in a month; the month is 1 to 12."""
    return _LENGTHS[month - 1] + ((month == 2) & leap(year))


def valid_date(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Whether the date exists."""
    known_month = (month >= 1) & (month <= 12)
    length = month_length(year, np.where(known_month, month, 1))
    return known_month & (day >= 1) & (day <= length)


def plus_months(days: Numbers, months: Numbers) -> Numbers:
    """The date `months` later; the last day of the month where the day does not exist."""
    year, month, day = civil(days)
    total = year * 12 + (month - 1) + months
    year, month = total // 12, total % 12 + 1
    return days_from(year, month, np.minimum(day, month_length(year, month)))
