"""Spark SQL's answer to a case: batch queries over local relations, and Structured Streaming for some."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.logger import PySparkLogger

from headgate.graph import types as ours
from headgate.graph.types import sql_name
from headgate.spark.types import to_arrow
from tests.oracle.answers import Answer
from tests.oracle.cases import Case, Input, statements_of
from tests.oracle.cells import show_cell

_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.ansi.enabled": "true",
}


def small_session(session: Any) -> Any:
    """A session of the same Spark for queries over few rows: compiling and shuffling would cost far more than they."""
    small = session.newSession()
    for key, value in _SMALL.items():
        small.conf.set(key, value)
    return small


class SparkRefused(Exception):
    """Spark raised; the message is Spark's."""


class SparkSide:
    """A Spark session with the views of the current case."""

    def __init__(self, session: Any) -> None:
        self.session = small_session(session)
        self._views: dict[str, object] = {}
        # PySpark logs each refusal with the JVM's stack; here a refusal may be the expected answer.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True

    def answer(self, case: Case) -> Answer:
        """The rows that Spark gives for a case; SparkRefused if it fails."""
        self.prepare(case)
        return self.ask(case.oracle or case.query)

    def prepare(self, case: Case) -> None:
        """Makes the views of a case: its streams, tables and the queries it reads."""
        self.session.conf.set("spark.sql.session.timeZone", case.zone)
        for name, of in case.inputs.items():
            key = (case.file, id(case.batches[name]), case.options.get("late"))
            if self._views.get(name) != key:
                self._views[name] = key
                self._view(case, of)
        for statement in statements_of(case.setup + ";\n" + case.statements):
            made = re.match(r"CREATE\s+QUERY\s+(\w+)\b.*?\bAS\s+((?:SELECT|WITH)\b.*)", statement, re.I | re.S)
            if made:
                self._views.pop(made[1], None)
                self.session.sql(f"CREATE OR REPLACE TEMP VIEW {made[1]} AS {made[2]}")

    def ask(self, sql: str) -> Answer:
        """The rows of one query, or of the last of several statements."""
        from pyspark.errors import PySparkException

        try:
            *before, last = statements_of(sql)
            for statement in before:
                self.session.sql(statement)
            frame = self.session.sql(last)
            types = [to_arrow(f.dataType) for f in frame.schema.fields]
            return Answer.of(frame.toArrow(), types)
        except PySparkException as error:
            raise SparkRefused(str(error)) from error

    def compute(self, batch: pa.RecordBatch, sqls: list[str], types: list[pa.DataType], zone: str) -> list[pa.Array]:
        """The values that Catalyst computes for expressions over the rows of a batch, in row order."""
        self.session.conf.set("spark.sql.session.timeZone", zone)
        rows = pa.Table.from_batches([batch]).append_column("_row", pa.array(range(batch.num_rows), ours.INT))
        frame = self.session.createDataFrame(rows) if batch.num_rows else None
        if frame is None:
            return [pa.array([], type_) for type_ in types]
        asked = frame.selectExpr("_row", *(f"({sql}) AS c{i}" for i, sql in enumerate(sqls))).orderBy("_row")
        table = asked.toArrow().combine_chunks()
        columns = [table.column(f"c{i}").cast(type_).combine_chunks() for i, type_ in enumerate(types)]
        return [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]

    def _view(self, case: Case, of: Input) -> None:
        watermarks = case.watermarks(of.name)
        rows: list[list[str]] = []
        for batch, watermark in zip(case.batches[of.name], watermarks, strict=True):
            for row in batch.to_pylist():
                cells = [_plain(row[f.name], f.type) for f in of.schema]
                mark = "NULL" if watermark is None else _quoted(_moment(watermark))
                rows.append([*cells, str(len(rows)), mark])
        names = [*of.schema.names, "_row", "_watermark"]
        types = [*of.schema.types, ours.INT, ours.TIMESTAMP if _zoned(of) else ours.TIMESTAMP_NTZ]
        casts = ", ".join(
            f"CAST(`{name}` AS {sql_name(type_)}) AS `{name}`" for name, type_ in zip(names, types, strict=True)
        )
        heads = ", ".join(f"`{name}`" for name in names)
        values = ", ".join(f"({', '.join(cells)})" for cells in rows) or f"({', '.join(['NULL'] * len(names))})"
        where = "" if rows else " WHERE false"
        self.session.sql(
            f"CREATE OR REPLACE TEMP VIEW {of.name}_arrival AS SELECT {casts} FROM VALUES {values} AS t({heads}){where}"
        )
        columns = ", ".join(f"`{name}`" for name in of.schema.names)
        self.session.sql(
            f"CREATE OR REPLACE TEMP VIEW {of.name} AS "
            f"SELECT {columns} FROM {of.name}_arrival WHERE {in_time(of, case.options.get('late'))}"
        )


def in_time(of: Input, rule: str | None) -> str:
    """The condition that holds for the rows that are not late, by Spark's rule for an operator."""
    if of.time is None or of.static or rule in (None, "oracle", "keep"):
        return "true"
    if rule == "event":
        return f"_watermark IS NULL OR `{of.time}` IS NULL OR `{of.time}` > _watermark"
    if rule and rule.startswith("session "):
        return f"_watermark IS NULL OR `{of.time}` + INTERVAL {rule[8:]} > _watermark"
    if rule and rule.startswith("window "):
        return f"_watermark IS NULL OR window(`{of.time}`, '{rule[7:]}').end > _watermark"
    raise ValueError(f"no rule for late rows is called {rule}")


def _zoned(of: Input) -> bool:
    return of.time is None or of.schema.field(of.time).type.tz is not None


def _moment(value: datetime) -> str:
    return value.isoformat(" ").replace("+00:00", "Z")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\0") + "'"


def _plain(value: Any, type_: pa.DataType) -> str:
    """A value as an SQL expression that CAST makes the type of."""
    if value is None:
        return "NULL"
    if pa.types.is_map(type_):
        inside = ", ".join(f"{_typed(k, type_.key_type)}, {_typed(v, type_.item_type)}" for k, v in value)
        return f"map({inside})"
    if pa.types.is_list(type_):
        return f"array({', '.join(_typed(v, type_.value_type) for v in value)})"
    if pa.types.is_struct(type_):
        return "named_struct(" + ", ".join(f"'{p.name}', {_typed(value[p.name], p.type)}" for p in type_) + ")"
    if pa.types.is_string(type_):
        return _quoted(value)
    if pa.types.is_binary(type_):
        return f"unhex('{value.hex()}')"
    if pa.types.is_timestamp(type_):
        return _quoted(_moment(value))
    if pa.types.is_duration(type_):
        return f"make_dt_interval(0, 0, 0, {value.total_seconds():.6f})"
    return _quoted(show_cell(value, type_))


def _typed(value: Any, type_: pa.DataType) -> str:
    return f"CAST({_plain(value, type_)} AS {sql_name(type_)})"
