"""Types of date and time functions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.expressions.coercion import implicit, is_decimal, is_floating
from headgate.expressions.signature import (
    Literals,
    Rule,
    Signature,
    Types,
    WrongArguments,
    count_arguments,
    function,
)
from headgate.expressions.typing_rules.formats import readable, writable
from headgate.graph.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    WINDOW,
    WINDOW_NTZ,
    is_integral,
    is_numeric,
    sql_name,
)

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
"""Units of date_trunc by their spellings."""

_DAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
WEEKDAYS = {day[:size]: number for number, day in enumerate(_DAY_NAMES) for size in (2, 3, len(day))}
"""Days of the week by their English names, from Sunday = 0."""


@function("window")
def _window(name: str, types: Types, literals: Literals) -> Signature:
    """The tumbling window that a time is in; the option is "length,slide,offset" in microseconds."""
    count_arguments(name, types, 1)
    if types[0] == TIMESTAMP_NTZ:
        return Signature(name, types, WINDOW_NTZ)
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), WINDOW)


@function("window_time")
def _window_time(name: str, types: Types, literals: Literals) -> Signature:
    """The last microsecond of a window."""
    count_arguments(name, types, 1)
    if types[0] not in (WINDOW, WINDOW_NTZ):
        raise WrongArguments(f"window_time takes a window, not {sql_name(types[0])}", 0)
    return Signature(name, types, types[0].field(1).type)


def _clock_part(result: pa.DataType) -> Rule:
    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, 1)
        if types[0] == TIMESTAMP_NTZ:
            return Signature(name, types, result)
        return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), result, zoned=True)

    return rule


for _name in ("hour", "minute", "second"):
    function(_name)(_clock_part(INT))
# EXTRACT(SECOND FROM …), which has decimals where second() has none.
function("extract_seconds")(_clock_part(pa.decimal128(8, 6)))


def _of_date(result: pa.DataType) -> Rule:
    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, 1)
        return Signature(name, (implicit(name, 0, types[0], DATE),), result)

    return rule


for _name, _aliases in {
    "year": (),
    "quarter": (),
    "month": (),
    "day": ("dayofmonth",),
    "dayofweek": (),
    "weekday": (),
    "dayofyear": (),
    "weekofyear": ("week",),
    "yearofweek": (),
}.items():
    function(_name, *_aliases)(_of_date(INT))
function("last_day")(_of_date(DATE))
function("unix_date")(_of_date(INT))
function("dayname")(_of_date(STRING))
function("monthname")(_of_date(STRING))


def _days(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[1] not in (INT, SMALLINT, TINYINT, NULL, STRING):
        raise WrongArguments(f"{name} takes a number of days as INT, not {sql_name(types[1])}", 1)
    return Signature(name, (implicit(name, 0, types[0], DATE), INT), DATE)


function("date_add")(_days)
function("date_sub")(_days)


@function("dateadd")
def _dateadd(name: str, types: Types, literals: Literals) -> Signature:
    """The two-argument form; with a unit it is timestampadd."""
    return _days("date_add", types, literals)


@function("datediff", "date_diff")
def _datediff(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    return Signature(name, tuple(implicit(name, i, t, DATE) for i, t in enumerate(types)), INT)


@function("add_months", fails=True)
def _add_months(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], DATE), implicit(name, 1, types[1], INT))
    return Signature(name, args, DATE)


@function("plus_months", fails=True)
def _plus_months(name: str, types: Types, literals: Literals) -> Signature:
    """A date or time plus INTERVAL n MONTH (or years): the wall clock keeps its time of day."""
    count_arguments(name, types, 2)
    if types[0] == DATE or types[0] == TIMESTAMP_NTZ:
        return Signature(name, (types[0], INT), types[0])
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP), INT), TIMESTAMP, zoned=True)


@function("next_day")
def _next_day(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], DATE), implicit(name, 1, types[1], STRING))
    native = isinstance(literals[1], str) and literals[1].strip().lower() in WEEKDAYS
    return Signature(name, args, DATE, native)


@function("trunc")
def _trunc(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], DATE), implicit(name, 1, types[1], STRING))
    return Signature(name, args, DATE, native=isinstance(literals[1], str))


@function("date_trunc")
def _date_trunc(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    unit = implicit(name, 0, types[0], STRING)
    native = isinstance(literals[0], str)
    return Signature(name, (unit, implicit(name, 1, types[1], TIMESTAMP)), TIMESTAMP, native, zoned=True)


@function("unix_timestamp", "to_unix_timestamp")
def _unix_timestamp(name: str, types: Types, literals: Literals) -> Signature:
    """Native for dates and times; text is read by Catalyst, and without arguments it is the time of the batch."""
    count_arguments(name, types, 0, 2)
    if types and types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        zoned = types[0] != TIMESTAMP
        return Signature(name, (types[0], *(STRING,) * (len(types) - 1)), BIGINT, zoned=zoned)
    return Signature(name, types, BIGINT, native=False)


for _name in ("unix_seconds", "unix_millis", "unix_micros"):

    @function(_name)
    def _unix(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, 1)
        return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), BIGINT)


def _from_unix(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not is_numeric(types[0]) and types[0] != NULL:
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    if name == "timestamp_seconds" and (is_floating(types[0]) or is_decimal(types[0])):
        native = not is_decimal(types[0])
        return Signature(name, (DOUBLE if native else types[0],), TIMESTAMP, native)
    if not is_integral(types[0]) and types[0] != NULL:
        raise WrongArguments(f"{name} takes an integer, not {sql_name(types[0])}", 0)
    return Signature(name, (BIGINT,), TIMESTAMP)


for _name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros"):
    function(_name, fails=_name != "timestamp_micros")(_from_unix)


@function("date_from_unix_date")
def _date_from_unix_date(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, (implicit(name, 0, types[0], INT),), DATE)


@function("from_unixtime")
def _from_unixtime(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 2)
    args = (implicit(name, 0, types[0], BIGINT), *(implicit(name, 1, t, STRING) for t in types[1:]))
    return Signature(name, args, STRING, native=len(types) == 1 or writable(literals[1]), zoned=True)


@function("date_format")
def _date_format(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], TIMESTAMP), implicit(name, 1, types[1], STRING))
    return Signature(name, args, STRING, native=writable(literals[1]), zoned=True)


def _parse_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return bool(args[0] == STRING)


def _parsed(name: str, types: Types, literals: Literals) -> Signature:
    """to_date and to_timestamp: casts without a pattern, and readings of text with one."""
    from headgate.expressions.typing_rules.logic import cast_signature

    count_arguments(name, types, 1, 2)
    result = DATE if name == "to_date" else TIMESTAMP
    if len(types) == 1:
        return cast_signature(types[0], result)
    if types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return Signature(name, (result, STRING), result)
    args = tuple(implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, result, readable(literals[1]), zoned=result == TIMESTAMP)


function("to_date", fails=_parse_fails)(_parsed)
function("to_timestamp", fails=_parse_fails)(_parsed)


@function("make_date", fails=True)
def _make_date(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    return Signature(name, tuple(implicit(name, i, t, INT) for i, t in enumerate(types)), DATE)


def _shifted(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], TIMESTAMP), implicit(name, 1, types[1], STRING))
    return Signature(name, args, TIMESTAMP, native=isinstance(literals[1], str))


function("from_utc_timestamp")(_shifted)
function("to_utc_timestamp")(_shifted)

UNITS: Sequence[str] = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
)
"""Units of timestampadd and timestampdiff."""


def _unit(name: str, literal: object | None) -> None:
    if not isinstance(literal, str) or literal.lower() not in UNITS:
        raise WrongArguments(f"the unit of {name} is one of {', '.join(UNITS)}, not {literal}", 0)


@function("timestampadd", fails=True)
def _timestampadd(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: the unit as a string literal, how many, and the time."""
    count_arguments(name, types, 3)
    _unit(name, literals[0])
    time = types[2] if types[2] == TIMESTAMP_NTZ else implicit(name, 2, types[2], TIMESTAMP)
    args = (STRING, implicit(name, 1, types[1], BIGINT), time)
    return Signature(name, args, time, zoned=time == TIMESTAMP)


@function("timestampdiff")
def _timestampdiff(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: the unit as a string literal, the start and the end; whole units between them on the wall clock."""
    count_arguments(name, types, 3)
    _unit(name, literals[0])
    args = (STRING, implicit(name, 1, types[1], TIMESTAMP), implicit(name, 2, types[2], TIMESTAMP))
    return Signature(name, args, BIGINT, zoned=True)
