"""PostgreSQL tables as sinks: an epoch is one transaction, which also records the epoch's number."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headgate.connectors.columns import KEY, columns_problem, key_columns
from headgate.connectors.contract import Guarantee, ResultSink
from headgate.connectors.csv import CsvSink
from headgate.connectors.json import converter
from headgate.connectors.spark_format import reason
from headgate.graph import types as t
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query
from headgate.graph.secrets import without_secrets
from headgate.graph.types import Field, Schema, sql_name
from headgate.spark.packages import POSTGRESQL, PackageError, provide
from headgate.spark.results import DriverWriter, Results, SinkError, Writer

_PREFIX = "jdbc:postgresql:"
_EPOCHS = "headgate_epochs"
"""The table that records the last epoch of each run, query and table."""
_STAGE = "headgate_stage"
_ORDER, _DELETED = "headgate_order", "headgate_deleted"
PATIENCE = 120.0
"""Seconds for which an epoch is tried again, each time with a new connection, while the server does not answer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two attempts, doubled each time."""
_LOST = ("08", "57P0", "53300")
"""SQLSTATE prefixes of a lost connection or server."""
_COPY = "FORMAT csv, NULL '', QUOTE '\"', ESCAPE '\"'"
_TYPES = {
    t.BOOLEAN: "boolean",
    t.TINYINT: "smallint",
    t.SMALLINT: "smallint",
    t.INT: "integer",
    t.BIGINT: "bigint",
    t.FLOAT: "real",
    t.DOUBLE: "double precision",
    t.STRING: "text",
    t.BINARY: "bytea",
    t.DATE: "date",
    t.TIMESTAMP: "timestamptz",
}


class PostgresqlSink(ResultSink):
    """A table of a PostgreSQL database."""

    name = "postgresql"
    about = "a table of a PostgreSQL database; it is made if it does not exist"
    options = OptionSet(
        (
            OptionDeclaration("url", "address of the database, as `jdbc:postgresql://host:5432/database`", needed=True),
            OptionDeclaration("table", "name of the table, or `schema.table`", needed=True),
            OptionDeclaration("user", "user of the database"),
            OptionDeclaration("password", "password of the user"),
            KEY,
        )
    )
    replaces_rows = True
    written_by = "driver"
    guarantee = Guarantee(
        True,
        f"an epoch and its number in the table `{_EPOCHS}` are one transaction",
        "tests/postgresql/test_kills.py::test_the_table_equals_the_batch_answer",
    )
    example = "url 'jdbc:postgresql://localhost/postgres', table 'totals', key 'k'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        if not options["url"].startswith(_PREFIX):
            return OptionProblem("url", f"url must begin with {_PREFIX}; other databases are written by INTO jdbc")
        problem = columns_problem(options, KEY.name, schema)
        if problem is not None:
            return problem
        for field in schema.fields:
            if _type(field) is None:
                had = f"{field.name} {sql_name(field.type)}"
                return OptionProblem(
                    None, f"PostgreSQL has no place for {had}; write CAST({field.name} AS STRING) AS {field.name}"
                )
        return None

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        key = key_columns(query, self.name, options)
        try:
            provide(spark, POSTGRESQL)
        except PackageError as error:
            raise SinkError(f"query {query.name}: the driver of PostgreSQL is missing: {error}") from error
        writer = PostgresqlWriter(spark, query, options, run, key)
        writer.prepare()
        return writer


class PostgresqlWriter(DriverWriter):
    """Copies an epoch's rows into a temporary table and merges them, by the JDBC driver in Spark's JVM."""

    def __init__(self, spark: Any, query: Query, options: Mapping[str, str], run: str, key: list[str]) -> None:
        self._spark = spark
        self._query = query
        self._options = options
        self._whose = (run, query.name, options["table"])
        self._table = ".".join(_named(part) for part in options["table"].split("."))
        self._key = key
        self._columns = [field.name for field in query.schema.fields]
        self._connection: Any = None

    def prepare(self) -> None:
        """Makes the tables that do not exist; SinkError if the table cannot be written."""
        try:
            connection = self._connect()
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {_EPOCHS} (run text, query text, target text, epoch bigint NOT NULL,"
                " PRIMARY KEY (run, query, target))"
            )
            if not self._ask("SELECT to_regclass(?) IS NOT NULL", self._table):
                self._execute(self._definition())
            connection.commit()
            problem = self._misfit()
            # A session that is idle in a transaction would keep the server from cleaning up.
            connection.commit()
        except Exception as error:
            raise self._error(error) from error
        if problem is not None:
            self.close()
            raise SinkError(f"query {self._query.name}: sink postgresql: {problem}")

    def publish(self, results: Results) -> None:
        data = bytearray(_lines(results))
        until = time.monotonic() + PATIENCE
        pause = _FIRST_PAUSE
        while True:
            try:
                self._transaction(results, data)
                return
            except Exception as error:
                self.close()
                if time.monotonic() + pause > until or not _state(error).startswith(_LOST):
                    raise self._error(error) from error
            _wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:
                # The connection was lost; the server rolls its transaction back.
                return

    def _transaction(self, results: Results, data: bytearray) -> None:
        connection = self._connect()
        if self._noted() >= results.epoch:
            connection.rollback()
            return
        update = results.deleted is not None
        extra = f", 0 AS {_ORDER}, false AS {_DELETED}"
        names = ", ".join(_named(name) for name in self._columns)
        self._execute(
            f"CREATE TEMPORARY TABLE {_STAGE} ON COMMIT DROP AS SELECT {names}{extra} FROM {self._table} LIMIT 0"
        )
        stream = self._spark.sparkContext._jvm.java.io.ByteArrayInputStream(data)
        copied = f"{names}, {_ORDER}, {_DELETED}"
        connection.getCopyAPI().copyIn(f"COPY {_STAGE} ({copied}) FROM STDIN WITH ({_COPY})", stream)
        for statement in self._merge(names, update):
            self._execute(statement)
        self._execute(
            f"INSERT INTO {_EPOCHS} VALUES (?, ?, ?, {results.epoch}) ON CONFLICT (run, query, target)"
            " DO UPDATE SET epoch = EXCLUDED.epoch",
            *self._whose,
        )
        connection.commit()

    def _merge(self, names: str, update: bool) -> list[str]:
        """Statements that move the staged rows into the table."""
        if not self._key:
            return [f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {_STAGE} ORDER BY {_ORDER}"]
        key = ", ".join(_named(name) for name in self._key)
        # The last change of a key counts.
        last = f"SELECT DISTINCT ON ({key}) * FROM {_STAGE} ORDER BY {key}, {_ORDER} DESC"
        others = [_named(name) for name in self._columns if name not in self._key]
        then = f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
        put = (
            f"INSERT INTO {self._table} ({names}) SELECT {names} FROM ({last}) AS last WHERE NOT {_DELETED}"
            f" ON CONFLICT ({key}) DO {then}"
        )
        same = " AND ".join(f"{_same(f'target.{_named(name)}', f'last.{_named(name)}')}" for name in self._key)
        gone = f"DELETE FROM {self._table} AS target USING ({last}) AS last WHERE last.{_DELETED} AND {same}"
        return [gone, put] if update else [put]

    def _definition(self) -> str:
        columns = [f"{_named(field.name)} {_type(field)}" for field in self._query.schema.fields]
        if self._key:
            # A group key may be null. Before version 15 a unique key does not recognize such rows as equal.
            modern = int(self._ask("SELECT current_setting('server_version_num')")) >= 150000
            kind = "UNIQUE NULLS NOT DISTINCT" if modern else "PRIMARY KEY"
            columns.append(f"{kind} ({', '.join(_named(name) for name in self._key)})")
        return f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(columns)})"

    def _misfit(self) -> str | None:
        """Why the table cannot take the rows."""
        listed = "SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0"
        has = str(self._ask(f"{listed} AND NOT attisdropped", self._table) or "").split(",")
        missing = [name for name in self._columns if name not in has]
        if missing:
            return f"table {self._options['table']} has no column {missing[0]}; it has {', '.join(has)}"
        if not self._key:
            return None
        unique = (
            "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(?) AND indisunique AND indpred IS NULL AND"
            " (SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute WHERE attrelid = indrelid AND"
            " attnum = ANY (indkey)) = ?"
        )
        if self._ask(unique, self._table, ",".join(sorted(self._key))):
            return None
        key = ", ".join(self._key)
        return (
            f"table {self._options['table']} has no unique key ({key}), by which rows are replaced; write ALTER TABLE"
            f" {self._options['table']} ADD PRIMARY KEY ({key})"
        )

    def _noted(self) -> int:
        """The last epoch that the table has; -1 if none."""
        found = self._ask(f"SELECT max(epoch) FROM {_EPOCHS} WHERE run = ? AND query = ? AND target = ?", *self._whose)
        return -1 if found is None else int(found)

    def _connect(self) -> Any:
        if self._connection is None:
            jvm = self._spark.sparkContext._jvm
            loader = self._spark._jsparkSession.sharedState().jarClassLoader()
            driver = loader.loadClass("org.postgresql.Driver").newInstance()
            properties = jvm.java.util.Properties()
            properties.put("ApplicationName", "headgate")
            for name in ("user", "password"):
                if name in self._options:
                    properties.put(name, self._options[name])
            self._connection = driver.connect(self._options["url"], properties)
            self._connection.setAutoCommit(False)
        return self._connection

    def _execute(self, statement: str, *values: str) -> None:
        prepared = self._prepared(statement, values)
        try:
            prepared.execute()
        finally:
            prepared.close()

    def _ask(self, question: str, *values: str) -> Any:
        """The only value of a query."""
        prepared = self._prepared(question, values)
        try:
            rows = prepared.executeQuery()
            rows.next()
            return rows.getObject(1)
        finally:
            prepared.close()

    def _prepared(self, statement: str, values: Sequence[str]) -> Any:
        prepared = self._connect().prepareStatement(statement)
        for place, value in enumerate(values, 1):
            prepared.setString(place, value)
        return prepared

    def _error(self, error: Exception) -> SinkError:
        self.close()
        said = without_secrets(reason(error), self._options)
        return SinkError(f"query {self._query.name}: sink postgresql: table {self._options['table']}: {said}")


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _lines(results: Results) -> bytes:
    """The rows as COPY reads them, each with its number and whether it is deleted."""
    table = results.table
    for place, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            texts = [None if value is None else f"\\x{value.hex()}" for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, t.STRING))
        elif pa.types.is_nested(field.type):
            convert = converter(field.type, False)
            values = [None if v is None else json.dumps(convert(v)) for v in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(values, t.STRING))
    count = table.num_rows
    table = table.append_column(_ORDER, pa.array(range(count), t.BIGINT))
    deleted = results.deleted if results.deleted is not None else pa.array([False] * count, t.BOOLEAN)
    table = table.append_column(_DELETED, deleted)
    # A backslash has no special meaning to COPY in CSV.
    return CsvSink().encoder({"escape": '"'})(table)


def _type(field: Field) -> str | None:
    """The PostgreSQL type of a column in a table that is created; None if there is none."""
    if pa.types.is_decimal(field.type):
        return f"numeric({field.type.precision}, {field.type.scale})"
    if pa.types.is_nested(field.type):
        return "jsonb"
    if pa.types.is_timestamp(field.type) and field.type.tz is None:
        return "timestamp"
    return _TYPES.get(field.type)


def _same(one: str, other: str) -> str:
    return f"({one} = {other} OR ({one} IS NULL AND {other} IS NULL))"


def _state(error: Exception) -> str:
    """The SQLSTATE of an error of the JDBC driver; empty if it has none."""
    try:
        return str(error.java_exception.getSQLState())  # type: ignore[attr-defined]
    except Exception:
        return ""


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
