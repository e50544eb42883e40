"""A sink that discards results, to measure a query without the cost of writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph.queries import Query
from headgate.spark.messages import WrittenFile
from headgate.spark.results import HostWriter, Results, Writer


class NoopSink(ResultSink):
    """Accepts every result and writes nothing."""

    name = "noop"
    about = "discards results, for measurements"
    replaces_rows = True
    guarantee = Guarantee(True, "nothing is written")
    written_by = "hosts"

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        del spark, query, options, run
        return _Discard()

    def host_writer(self, query: str, options: Mapping[str, str], run: str, part: str) -> HostWriter:
        del query, options, run, part
        return _Discard()


class _Discard(HostWriter):
    def stage(self, results: Results, attempt: str) -> list[WrittenFile]:
        del results, attempt
        return []

    def publish(self, results: Results) -> None:
        """Nothing is written."""
