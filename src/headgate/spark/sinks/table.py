"""Any format that Spark writes: a folder or a table of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.spark.sinks.contract import Results, SinkError


class SparkWriter:
    """Writes with Spark's own writer.

    A folder gets a subfolder `epoch=<n>` an epoch, which is overwritten if the epoch comes again: exactly once. A
    Delta table is told the transaction (`txnAppId`, `txnVersion`), which it applies once. Another table is
    appended to: at least once, since Spark has no way to ask whether an append has happened.
    """

    def __init__(self, spark: Any, query: str, format_: str, options: Mapping[str, str], run: str) -> None:
        if "path" not in options and "table" not in options:
            raise SinkError(f"query {query}: sink {format_} needs a place; write OPTIONS (path '…') or (table '…')")
        self._spark = spark
        self._query = query
        self._format = format_
        self._options = dict(options)
        self._table = self._options.pop("table", None)
        self._path = self._options.pop("path", None)
        self._run = run

    def publish(self, results: Results) -> None:
        from pyspark.errors import PySparkException

        try:
            writer = self._spark.createDataFrame(results.table).write.format(self._format).options(**self._options)
            if self._format == "delta":
                writer = writer.option("txnAppId", f"headgate-{self._run}-{self._query}")
                writer = writer.option("txnVersion", str(results.epoch)).mode("append")
                writer.saveAsTable(self._table) if self._table else writer.save(self._path)
            elif self._table:
                writer.mode("append").saveAsTable(self._table)
            else:
                folder = f"{self._path}/epoch={results.epoch:09d}"
                writer.mode("overwrite").save(folder)
        except PySparkException as error:
            reason = str(error).splitlines()[0]
            raise SinkError(f"query {self._query}: sink {self._format} refused the results: {reason}") from error

    def close(self) -> None:
        """Spark's writer holds nothing open."""
