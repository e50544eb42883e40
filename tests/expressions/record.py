"""Writes Spark's answers into tables of cases: `python -m tests.expressions.record FILE…`; review the difference.

Each file gets a stamp (`tests.recorded`): while it fits, Spark is asked again by `make test-all` only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.graph.types import TIMESTAMP_NTZ
from headgate.spark.session import local_session
from tests.expressions.tables import Table, load, shown
from tests.recorded import write_stamped


def spark_values(spark: Any, table: Table, expressions: list[str]) -> list[pa.Array]:
    """What Spark computes, one column for each expression."""
    spark.conf.set("spark.sql.session.timeZone", table.zone)
    return spark_columns(spark, table.batch(), expressions)


def spark_columns(spark: Any, rows: pa.RecordBatch, expressions: list[str]) -> list[pa.Array]:
    """All expressions at once. Spark's optimizer computes them on a local relation itself, without a job."""
    numbered = pa.Table.from_batches([rows]).append_column("row_number_", pa.array(range(rows.num_rows)))
    frame = spark.createDataFrame(numbered)
    # PySpark reads times without a zone as local times with a zone.
    for f in rows.schema:
        if f.type == TIMESTAMP_NTZ:
            frame = frame.withColumn(f.name, frame[f.name].cast("timestamp_ntz"))
    frame.createOrReplaceTempView("t")
    listed = ", ".join(f"{e} AS x{i}" for i, e in enumerate(expressions))
    result = spark.sql(f"SELECT row_number_, {listed} FROM t").toArrow().sort_by("row_number_")
    return [result.column(i + 1).combine_chunks() for i in range(len(expressions))]


def condition(error: BaseException) -> str:
    """Spark's name for an error, from its message."""
    found = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
    return found.group(1) if found else f"UNKNOWN {str(error)[:80]}"


def record(spark: Any, path: Path) -> None:
    table = load(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    for case, values in zip(table.cases, _values(spark, table, [c.expression for c in table.cases]), strict=True):
        lines[case.line - 1] = f"{case.expression} => {values}"
    write_stamped(path, "\n".join(lines) + "\n")


def _values(spark: Any, table: Table, expressions: list[str]) -> list[str]:
    """What Spark gives for each expression; failing ones are found by bisection."""
    try:
        return [" | ".join(shown(column)) for column in spark_values(spark, table, expressions)]
    except Exception as error:
        if len(expressions) == 1:
            return [f"ERROR {condition(error)}"]
    middle = len(expressions) // 2
    return _values(spark, table, expressions[:middle]) + _values(spark, table, expressions[middle:])


if __name__ == "__main__":
    session = local_session("record")
    for name in sys.argv[1:]:
        record(session, Path(name))
