"""Functions of dates: their parts, and moving by days and months."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import implicit
from headgate.expressions.errors import EvaluationError, overflow
from headgate.expressions.kernels import Kernel, Value, all_null, arrays, constant, null_literal
from headgate.expressions.registry import function, typed
from headgate.expressions.rules import takes
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.times.calendar import civil, days_from, month_length, plus_months, valid_date
from headgate.graph.expressions import Call
from headgate.graph.types import DATE, INT, NULL, SMALLINT, STRING, TINYINT, sql_name

TRUNCATIONS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mon": "month",
    "mm": "month",
    "week": "week",
    "day": "day",
    "dd": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}
"""Units of trunc and date_trunc by their spellings."""

# Arrow arrays are created where they are used: creating the first one in a process imports pandas.
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def weekday(days: Numbers) -> Numbers:
    """0 is Sunday. The first of January 1970 was a Thursday."""
    return (days.astype(np.int64) + 4) % 7


def iso_week(days: Numbers) -> tuple[Numbers, Numbers]:
    """ISO year and week: those of the Thursday of the same week."""
    thursday = days.astype(np.int64) - (days.astype(np.int64) + 3) % 7 + 3
    year = civil(thursday)[0]
    one = np.ones_like(year)
    return year, (thursday - days_from(year, one, one)) // 7 + 1


def day_of_year(days: Numbers) -> Numbers:
    year = civil(days)[0]
    one = np.ones_like(year)
    return days - days_from(year, one, one) + 1


_PARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": lambda days: civil(days)[0],
    "quarter": lambda days: (civil(days)[1] - 1) // 3 + 1,
    "month": lambda days: civil(days)[1],
    "day": lambda days: civil(days)[2],
    "dayofweek": lambda days: weekday(days) + 1,
    "weekday": lambda days: (weekday(days) + 6) % 7,
    "dayofyear": day_of_year,
    "weekofyear": lambda days: iso_week(days)[1],
    "yearofweek": lambda days: iso_week(days)[0],
    "unix_date": lambda days: days,
}


@function(*_PARTS, types=takes((DATE,), INT), aliases={"dayofmonth": "day", "week": "weekofyear"})
def _part(call: Call) -> Kernel:
    part = _PARTS[call.name]

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        return rebuilt(part(numbers(array)), INT, nulls(array))

    return run


@function("dayname", "monthname", types=takes((DATE,), STRING))
def _name(call: Call) -> Kernel:
    names = pa.array(_DAYS if call.name == "dayname" else _MONTHS)

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        days = numbers(array)
        index = weekday(days) if call.name == "dayname" else civil(days)[1] - 1
        return names.take(rebuilt(index, pa.int64(), nulls(array))).cast(STRING)

    return run


def wrapped(days: Numbers, missing: Numbers | None) -> pa.Array:
    """Days as DATE; out of range it wraps around, as Java's integers do."""
    return rebuilt(days.astype(np.int32), DATE, missing)


def as_dates(days: Numbers, missing: Numbers | None) -> pa.Array:
    """Days as DATE; EvaluationError if out of range."""
    outside = np.abs(days) >= 2**31
    if missing is not None:
        outside &= ~missing
    if outside.any():
        raise overflow("integer overflow")
    return rebuilt(days if missing is None else np.where(missing, 0, days), DATE, missing)


def _days_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[1] not in (INT, SMALLINT, TINYINT, NULL, STRING):
        raise WrongArguments(f"{name} takes a number of days as INT, not {sql_name(types[1])}", 1)
    return Signature(name, (implicit(name, 0, types[0], DATE), INT), DATE)


@function("date_add", "date_sub", types=_days_types)
def _date_add(call: Call) -> Kernel:
    sign = 1 if call.name == "date_add" else -1

    def run(value: Value, by: Value) -> Value:
        dates, days = arrays(value, by)
        moved = numbers(dates).astype(np.int64) + sign * numbers(days).astype(np.int64)
        return wrapped(moved, nulls(dates, days))

    return run


def _dateadd_types(name: str, types: Types, literals: Literals) -> Signature:
    """The two-argument form; with a unit it is timestampadd."""
    return _days_types("date_add", types, literals)


typed("dateadd", types=_dateadd_types)


@function("datediff", types=takes((DATE, DATE), INT), aliases={"date_diff": "datediff"})
def _datediff(call: Call) -> Kernel:
    def run(end: Value, start: Value) -> Value:
        last, first = arrays(end, start)
        return rebuilt(numbers(last).astype(np.int64) - numbers(first), INT, nulls(last, first))

    return run


@function("add_months", types=takes((DATE, INT), DATE), fails=True)
def _add_months(call: Call) -> Kernel:
    def run(value: Value, by: Value) -> Value:
        dates, months = arrays(value, by)
        moved = plus_months(numbers(dates), numbers(months).astype(np.int64))
        return as_dates(moved, nulls(dates, months))

    return run


@function("last_day", types=takes((DATE,), DATE))
def _last_day(call: Call) -> Kernel:
    def run(value: Value) -> Value:
        (array,) = arrays(value)
        year, month, _ = civil(numbers(array))
        return rebuilt(days_from(year, month, month_length(year, month)), DATE, nulls(array))

    return run


typed("next_day", types=takes((DATE, STRING), DATE))


def floored(days: Numbers, unit: str) -> Numbers:
    """The first day of the week, month, quarter or year that contains each day."""
    if unit == "week":
        return days - (days.astype(np.int64) + 3) % 7
    year, month, _ = civil(days)
    if unit == "year":
        month = np.ones_like(month)
    elif unit == "quarter":
        month = (month - 1) // 3 * 3 + 1
    return days_from(year, month, np.ones_like(month))


def _trunc_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], DATE), implicit(name, 1, types[1], STRING))
    return Signature(name, args, DATE, native=isinstance(literals[1], str))


@function("trunc", types=_trunc_types)
def _trunc(call: Call) -> Kernel:
    """NULL for units other than week, month, quarter and year."""
    unit = TRUNCATIONS.get(str(constant(call, 1)).lower())
    if null_literal(call) or unit not in ("week", "month", "quarter", "year"):
        return all_null(call)

    def run(value: Value, _: Value) -> Value:
        (array,) = arrays(value)
        return rebuilt(floored(numbers(array), unit), DATE, nulls(array))

    return run


@function("make_date", types=takes((INT, INT, INT), DATE), fails=True)
def _make_date(call: Call) -> Kernel:
    def run(*args: Value) -> Value:
        columns = arrays(*args)
        year, month, day = (numbers(c).astype(np.int64) for c in columns)
        missing = nulls(*columns)
        good = valid_date(year, month, day)
        bad = ~good if missing is None else ~good & ~missing
        if bad.any():
            row = int(np.argmax(bad))
            raise EvaluationError(
                "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION",
                f"There is no date of year {year[row]}, month {month[row]}, day {day[row]}.",
            )
        return as_dates(np.where(good, days_from(year, np.clip(month, 1, 12), day), 0), missing)

    return run


@function("date_from_unix_date", types=takes((INT,), DATE))
def _date_from_unix_date(call: Call) -> Kernel:
    return lambda value: arrays(value)[0].view(DATE)
