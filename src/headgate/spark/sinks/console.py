"""Prints results, a line a row."""

from __future__ import annotations

import datetime
import sys
from typing import Any, TextIO

from headgate.spark.sinks.contract import Results


class ConsoleWriter:
    """Writes `query: column=value …` to a stream, at most `limit` rows an epoch, then how many more there are."""

    def __init__(self, query: str, limit: int, out: TextIO | None = None) -> None:
        self._query = query
        self._limit = limit
        self._out = out or sys.stdout

    def publish(self, results: Results) -> None:
        names = results.table.column_names
        shown = results.table.slice(0, self._limit)
        gone = results.deleted.slice(0, self._limit).to_pylist() if results.deleted is not None else []
        for number, row in enumerate(zip(*(column.to_pylist() for column in shown.columns), strict=True)):
            sign = "-" if gone and gone[number] else " "
            text = " ".join(f"{name}={shown_value(value)}" for name, value in zip(names, row, strict=True))
            print(f"{self._query}:{sign}{text}", file=self._out)
        if results.table.num_rows > self._limit:
            print(f"{self._query}: … {results.table.num_rows - self._limit:,} more", file=self._out)
        self._out.flush()

    def close(self) -> None:
        self._out.flush()


def shown_value(value: Any) -> str:
    """A value as a person reads it.

    >>> shown_value({"start": datetime.datetime(2024, 1, 1), "n": None})
    '{start: 2024-01-01 00:00:00, n: NULL}'
    """
    if value is None:
        return "NULL"
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown_value(part) for part in value) + "]"
    return str(value)
