"""Prints results to standard output, one line per row."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.queries import Query
from headgate.spark.results import DriverWriter, Results, Writer

_SHORT = 20


class ConsoleSink(ResultSink):
    """Prints `query: column=value …`."""

    name = "console"
    about = "prints a line a row; deletions of a query that updates begin with `-`"
    options = OptionSet(
        (
            OptionDeclaration("numRows", "rows printed an epoch", "integer", default="20"),
            OptionDeclaration(
                "truncate", f"longest value printed, in characters; true: {_SHORT}", "length", default="false"
            ),
        )
    )
    replaces_rows = True
    guarantee = Guarantee(False, "the last epochs are printed again after a crash")
    example = "numRows '100', truncate '30'"

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        del spark, run
        width = options.get("truncate", "false").lower()
        longest = {"true": _SHORT, "false": 0}[width] if width in ("true", "false") else int(width)
        return ConsoleWriter(query.name, int(options.get("numRows", "20")), longest)


class ConsoleWriter(DriverWriter):
    """Prints at most `limit` rows an epoch, then how many more there are; values of at most `longest` characters."""

    def __init__(self, query: str, limit: int, longest: int = 0, out: TextIO | None = None) -> None:
        self._query = query
        self._limit = limit
        self._longest = longest
        self._out = out or sys.stdout

    def publish(self, results: Results) -> None:
        names = results.table.column_names
        shown = results.table.slice(0, self._limit)
        gone = results.deleted.slice(0, self._limit).to_pylist() if results.deleted is not None else []
        for number, row in enumerate(zip(*(column.to_pylist() for column in shown.columns), strict=True)):
            sign = "-" if gone and gone[number] else " "
            text = " ".join(f"{name}={self._value(value)}" for name, value in zip(names, row, strict=True))
            print(f"{self._query}:{sign}{text}", file=self._out)
        if results.table.num_rows > self._limit:
            print(f"{self._query}: … {results.table.num_rows - self._limit:,} more", file=self._out)
        self._out.flush()

    def close(self) -> None:
        self._out.flush()

    def _value(self, value: Any) -> str:
        text = shown_value(value)
        return text if not self._longest or len(text) <= self._longest else f"{text[: max(self._longest - 1, 0)]}…"


def shown_value(value: Any) -> str:
    """A value in readable form.

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
