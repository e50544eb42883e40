"""A Python function that is called with each epoch's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query, Sink
from headgate.graph.types import Schema
from headgate.spark.results import DriverWriter, Results, Writer

_given: dict[str, Callable[[pa.Table], object]] = {}
"""Functions that were given as objects, by the text that stands for them in a sink's options."""


def callback(function: Callable[[pa.Table], object]) -> Sink:
    """A sink that calls a function with each epoch's rows (a `pyarrow.Table`)."""
    key = f"{function!r}@{id(function)}"
    _given[key] = function
    return Sink("callback", {"function": key})


class CallbackSink(ResultSink):
    """Calls a function with the rows of each epoch as a `pyarrow.Table`."""

    name = "callback"
    about = (
        "calls a Python function with each epoch's rows as a `pyarrow.Table`; for a query that updates, the table has a"
        " last column `deleted`"
    )
    options = OptionSet(
        (OptionDeclaration("function", "`module:function`; in Python write `hg.callback(function)`", needed=True),)
    )
    replaces_rows = True
    guarantee = Guarantee(False, "the function is called again with the last epochs after a crash")
    example = "function 'builtins:len'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        # Imported here: hosts load all connectors, and need no SQL.
        from headgate.sql.python_functions import import_problem

        del schema
        target = options["function"]
        message = None if target in _given else import_problem(target)
        return None if message is None else OptionProblem("function", message)

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        # Imported here: hosts load all connectors, and need no SQL.
        from headgate.sql.python_functions import imported

        del spark, query, run

        target = options["function"]
        return CallbackWriter(_given[target] if target in _given else imported(target))


class CallbackWriter(DriverWriter):
    """Calls the function on the publisher's thread."""

    def __init__(self, function: Callable[[pa.Table], object]) -> None:
        self._function = function

    def publish(self, results: Results) -> None:
        table = results.table
        if results.deleted is not None:
            table = table.append_column("deleted", results.deleted)
        self._function(table)
