"""Delta tables: Delta applies the transaction of an epoch once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.contract import Guarantee
from headgate.connectors.spark_format import SparkFormatSink, SparkFormatWriter
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.queries import Query
from headgate.spark.results import Writer


class DeltaSink(SparkFormatSink):
    """A Delta table, by its folder or by its name."""

    name = "delta"
    about = "a Delta table"
    options = OptionSet(
        (
            OptionDeclaration("path", "folder of the table"),
            OptionDeclaration("table", "name of the table in Spark's catalog"),
            OptionDeclaration("partitionBy", "columns of a new table, divided by commas", "columns"),
            OptionDeclaration("mergeSchema", "adds new columns to the table", "boolean"),
        ),
        one_of=(("path", "table"),),
        others=True,
        refused={
            "txnAppId": "Headgate sets it, so that an epoch is applied once",
            "txnVersion": "Headgate sets it, so that an epoch is applied once",
        },
    )
    guarantee = Guarantee(
        True,
        "the epoch is the version of a Delta transaction, which Delta applies once",
        "tests/connectors/test_sinks.py::test_what_the_delta_writer_is_given",
    )
    example = "path '{folder}/out'"

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        self.check_installed(spark, query)
        return _DeltaWriter(spark, query.name, options, run)


class _DeltaWriter(SparkFormatWriter):
    def __init__(self, spark: Any, query: str, options: Mapping[str, str], run: str) -> None:
        super().__init__(spark, query, "delta", options)
        self._application = f"headgate-{run}-{query}"

    def epoch_options(self, epoch: int) -> dict[str, str]:
        return {"txnAppId": self._application, "txnVersion": str(epoch)}

    def save(self, writer: Any, epoch: int) -> None:
        appending = writer.mode("append")
        appending.saveAsTable(self._table) if self._table is not None else appending.save(self._path)
