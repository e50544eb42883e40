"""Lines from a TCP connection, for trying things out: Spark cannot read them again after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.connectors.contract import Guarantee
from headgate.connectors.spark_format import SparkFormatSource
from headgate.connectors.value_format import LINE_FORMAT, columns_of, value_problem
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Stream
from headgate.graph.types import Schema
from headgate.spark.source_rows import SourceRows


class SocketSource(SparkFormatSource):
    """Lines of text from a host and port."""

    name = "socket"
    about = "lines from a TCP connection, without recovery: `value STRING`, or columns by `value_format`"
    options = OptionSet(
        (
            OptionDeclaration("host", "host to connect to", needed=True),
            OptionDeclaration("port", "port to connect to", "integer", needed=True, least=1),
            OptionDeclaration("includeTimestamp", "adds the column `timestamp TIMESTAMP`", "boolean", default="false"),
            LINE_FORMAT,
        )
    )
    guarantee = Guarantee(
        False,
        "lines that were sent while nothing listened, or before a crash, are lost: at most once",
        "tests/spark/test_sources.py::test_lines_before_a_restart_are_lost",
    )
    example = "host 'localhost', port '9999', value_format 'json'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        if options.get("includeTimestamp") == "true" and LINE_FORMAT.chosen(options) != "raw":
            return OptionProblem(
                "includeTimestamp", "includeTimestamp needs value_format raw: a value has no timestamp"
            )
        return value_problem(LINE_FORMAT, options, schema)

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        [stream] = streams
        options = {key: value for key, value in stream.options.items() if key != LINE_FORMAT.name}
        return columns_of(stream, self.load(spark, stream, options), "value", self.group(spark, streams))
