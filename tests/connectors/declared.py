"""Short ways to declare a stream or a query with a sink, checked as any script is."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.connectors.contract import quoted
from headgate.connectors.registry import connectors
from headgate.graph.queries import Query, Stream
from headgate.sql import Catalog

STREAM = "CREATE STREAM s ({columns}) USING rate;"


def clause(options: Mapping[str, str]) -> str:
    """Options as SQL."""
    inside = ", ".join(f"'{name}' '{quoted(value)}'" for name, value in options.items())
    return f"OPTIONS ({inside})" if inside else ""


def query_into(sink: str, options: str, columns: str = "k STRING, v STRING", select: str = "*") -> Query:
    """A query over columns of a stream, with one sink; SqlError if the checker refuses it."""
    catalog = Catalog(connectors=connectors())
    catalog.execute(STREAM.format(columns=columns))
    catalog.execute(f"CREATE QUERY q INTO `{sink}` {options} AS SELECT {select} FROM s")
    return catalog.queries["q"]


def stream_of(source: str, options: str, columns: str) -> Stream:
    """A stream; SqlError if the checker refuses it."""
    catalog = Catalog(connectors=connectors())
    catalog.execute(f"CREATE STREAM s ({columns}) USING `{source}` {options}")
    return catalog.streams["s"]
