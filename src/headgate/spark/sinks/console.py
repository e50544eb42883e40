"""Prints results, a line a row."""

from __future__ import annotations

import sys
from typing import TextIO

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
            text = " ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
            print(f"{self._query}:{sign}{text}", file=self._out)
        if results.table.num_rows > self._limit:
            print(f"{self._query}: … {results.table.num_rows - self._limit:,} more", file=self._out)
        self._out.flush()

    def close(self) -> None:
        self._out.flush()
