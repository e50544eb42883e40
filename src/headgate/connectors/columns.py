"""Columns as options list them and as SQL writes them."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.connectors.row_key import key_problem
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Query
from headgate.graph.types import Schema
from headgate.spark.results import SinkError

KEY = OptionDeclaration(
    "key",
    "columns, divided by commas, by which a row replaces an earlier one; queries that update need it",
    "columns",
)


def listed(options: Mapping[str, str], option: str) -> list[str]:
    """The columns that an option lists, divided by commas.

    >>> listed({"key": "a, b,"}, "key"), listed({}, "key")
    (['a', 'b'], [])
    """
    return [name.strip() for name in options.get(option, "").split(",") if name.strip()]


def columns_problem(options: Mapping[str, str], option: str, schema: Schema) -> OptionProblem | None:
    """Which column that an option lists the query does not have; None if it has all."""
    names = [name.lower() for name in schema.names]
    for name in listed(options, option):
        if name.lower() not in names:
            has = ", ".join(schema.names)
            return OptionProblem(option, f"{option} names {name}, which is no column of the query; it has {has}")
    return None


def key_columns(query: Query, sink: str, options: Mapping[str, str]) -> list[str]:
    """The columns of the option `key`, spelled as in the query. SinkError if a query that updates needs others."""
    given = {field.name.lower(): field.name for field in query.schema.fields}
    key = [given[name.lower()] for name in listed(options, KEY.name)]
    if query.mode == "update" and not key:
        raise SinkError(
            f"query {query.name}: sink {sink}: the query replaces rows, and the option key is missing: name the"
            " columns that identify a row, for example key 'k'"
        )
    wrong = key_problem(query, key)
    if wrong is not None:
        raise SinkError(f"query {query.name}: sink {sink}: {wrong}")
    return key


def named(column: str) -> str:
    """A column as Spark SQL writes it.

    >>> named("a`b")
    '`a``b`'
    """
    return f"`{column.replace('`', '``')}`"
