"""The partitions of a new Iceberg table, as the option `partitionBy` writes them: columns and transforms of columns."""

from __future__ import annotations

import re

from headgate.connectors.columns import columns_problem, named
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.types import Schema

PARTITION_BY = OptionDeclaration(
    "partitionBy", "partitions of a new table: columns, or transforms such as `day(ts), bucket(16, k)`"
)
_TIMES = ("year", "years", "month", "months", "day", "days", "hour", "hours")
_COUNTED = ("bucket", "truncate")
_PART = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d{1,9})\s*,)?)?\s*([^(),]*[^(),\s])\s*(\))?\s*")


def partitions(text: str) -> list[tuple[str, str, str]]:
    """Transform, number and column of each partition; the first two may be empty. ValueError with what to write.

    >>> partitions("region, Bucket(16, k)")
    [('', '', 'region'), ('bucket', '16', 'k')]
    """
    found = []
    for part in re.split(r",(?![^(]*\))", text):
        match = _PART.fullmatch(part)
        transform, number, column, end = match.groups(default="") if match else ("", "", "", ")")
        known = {False: ("", *_TIMES), True: _COUNTED}[bool(number)]
        if transform.lower() not in known or bool(transform) != bool(end):
            raise ValueError(
                f"partitionBy has {part.strip() or 'an empty part'}; write columns, year(c), month(c), day(c), hour(c),"
                " bucket(16, c) or truncate(4, c), divided by commas"
            )
        found.append((transform.lower(), number, column))
    return found


def partitions_problem(text: str, schema: Schema) -> OptionProblem | None:
    """Why a query with these columns cannot make a table with these partitions; None if it can."""
    try:
        columns = [column for _, _, column in partitions(text)]
    except ValueError as error:
        return OptionProblem(PARTITION_BY.name, str(error))
    return columns_problem({PARTITION_BY.name: ",".join(columns)}, PARTITION_BY.name, schema)


def partitioned_by(text: str) -> str:
    """The clause of CREATE TABLE.

    >>> partitioned_by("region, bucket(16, k)")
    'PARTITIONED BY (`region`, bucket(16, `k`))'
    """
    parts = [
        f"{transform}({f'{number}, ' if number else ''}{named(column)})" if transform else named(column)
        for transform, number, column in partitions(text)
    ]
    return f"PARTITIONED BY ({', '.join(parts)})"
