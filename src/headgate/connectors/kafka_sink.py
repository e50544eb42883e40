"""Kafka topics as sinks, written by the driver (`kafka_messages.py`) or through Spark's Kafka connector.

Spark writes messages that need it (Avro, keys by SQL, settings of Kafka's Java client), in one job for all queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from headgate.connectors.avro_values import AVRO_OPTIONS, avro_problem, encoded
from headgate.connectors.columns import columns_problem, listed, named
from headgate.connectors.contract import Guarantee, ResultSink, quoted
from headgate.connectors.csv import CsvSink
from headgate.connectors.json import JsonSink
from headgate.connectors.kafka_cluster import SERVERS, ClusterProblem, absent, check, missing, require, topic_problem
from headgate.connectors.kafka_messages import DirectKafkaWriter, obstacle
from headgate.connectors.kafka_producer import confirmed_by_all
from headgate.connectors.row_key import key_problem, mentioned
from headgate.connectors.spark_format import provided, reason
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query
from headgate.graph.secrets import without_secrets
from headgate.graph.types import BINARY, STRING, Schema, sql_name
from headgate.spark.outbox_rows import DELETED, OutboxRows
from headgate.spark.packages import AVRO, KAFKA, PackageError, see_added
from headgate.spark.results import ExecutorWriter, SinkError, Writer
from headgate.spark.spark_errors import spark_errors

_RAW = ("key", "value", "headers", "partition")
"""The columns of a query that value_format raw writes."""
VALUE_FORMAT = OptionDeclaration(
    "value_format",
    "message of a row: a JSON object, a CSV line, an Avro record, its only column (text), or the query's own columns"
    " `value`, `key`, `headers`, `partition` (raw)",
    choices=("json", "csv", "avro", "text", "raw"),
    default="json",
)
_MICROSECONDS = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX"
"""By default Spark writes milliseconds, and drops the rest."""
_OURS = (
    OptionDeclaration("topic", "topic that is written to"),
    OptionDeclaration("topic_column", "STRING column of the query that names the topic of each row"),
    OptionDeclaration(
        "key",
        "the message's key: a column or Spark SQL over the columns; default: none, or the keys of an update query",
    ),
    OptionDeclaration("headers", "columns, divided by commas, that become headers of the message, as text", "columns"),
    OptionDeclaration(
        "epoch_header",
        "adds the header `headgate`: query, epoch and number of the row, the same when it is sent again",
        "boolean",
        default="false",
    ),
    OptionDeclaration(
        "delivery",
        "exactly_once: the messages of an epoch are one transaction; needs confluent-kafka, and consumers that read"
        " committed messages",
        choices=("at_least_once", "exactly_once"),
        default="at_least_once",
    ),
    VALUE_FORMAT,
    *AVRO_OPTIONS,
)


class KafkaSink(ResultSink):
    """Topics of a Kafka cluster."""

    name = "kafka"
    about = "a topic of a Kafka cluster, a message a row; a deleted row of a query that updates is a null value"
    options = OptionSet(
        _OURS,
        one_of=((SERVERS,), ("topic", "topic_column")),
        prefixes=("kafka.",),
        lower=True,
        refused={"includeHeaders": "give the option headers; with value_format raw, a column headers is written"},
    )
    replaces_rows = True
    written_by = "driver"
    guarantee = Guarantee(
        False,
        "the messages of the last epochs are sent again after a crash, and `epoch_header` tells them; exactly once with"
        " `delivery 'exactly_once'`",
        "tests/kafka/test_kafka_to_kafka.py::test_nothing_is_lost_or_doubled",
    )
    example = "'kafka.bootstrap.servers' 'localhost:9092', topic 'alerts', key 'k', value_format 'json'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        types = {field.name.lower(): field.type for field in schema.fields}
        has = f"it has {', '.join(schema.names)}"
        if "topic" in options and "topic_column" in options:
            return OptionProblem("topic_column", "give either topic or topic_column")
        wrong = topic_problem(options["topic"]) if "topic" in options else None
        if wrong is not None:
            return OptionProblem("topic", wrong)
        for option in ("topic_column", "headers"):
            unknown = columns_problem(options, option, schema)
            if unknown is not None:
                return unknown
        column = options.get("topic_column")
        if column is not None and types[column.lower()] != STRING:
            found = sql_name(types[column.lower()])
            return OptionProblem("topic_column", f"topic_column names {column}, which is {found}; a topic is a STRING")
        key = options.get("key")
        if key is not None and key.isidentifier() and key.lower() not in types:
            return OptionProblem("key", f"key is {key}, which is no column of the query; {has}")
        if options.get("delivery") == "exactly_once" and not confirmed_by_all(options):
            return OptionProblem("kafka.acks", "delivery exactly_once needs kafka.acks all, which is the default")
        return _form_problem(options, schema) or avro_problem(options, schema, False)

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        given = options.get("key")
        wrong = key_problem(query, mentioned(given, query)) if given is not None else None
        if wrong is not None:
            raise SinkError(f"query {query.name}: sink kafka: {wrong}")
        problem = obstacle(query, options)
        if problem is None:
            return DirectKafkaWriter(query, options, run)
        if options.get("delivery") == "exactly_once":
            raise SinkError(f"query {query.name}: sink kafka: delivery exactly_once cannot be had: {problem}")
        avro = VALUE_FORMAT.chosen(options) == "avro"
        try:
            provided(spark, *([KAFKA, AVRO] if avro else [KAFKA]))
        except PackageError as error:
            raise SinkError(f"query {query.name}: Spark has no sink kafka: {error}") from error
        try:
            check(spark, options)
            if "topic" in options:
                require(spark, options, options["topic"], "topic")
        except ClusterProblem as error:
            raise SinkError(f"query {query.name}: sink kafka: {error}") from error
        writer = KafkaWriter(spark, query.name, options)
        writer.check(query)
        return writer


class KafkaWriter(ExecutorWriter):
    """Sends the results of each epoch with Spark's batch writer, whose tasks read them from the outbox."""

    def __init__(self, spark: Any, query: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._query = query
        self._options = options
        ours = {option.name for option in _OURS}
        self._passed = {name: value for name, value in options.items() if name not in ours}
        self.together = ("kafka", tuple(sorted(self._passed.items())))

    def check(self, query: Query) -> None:
        """SinkError if Spark refuses the expressions of the options."""
        rows = OutboxRows(query, 0, "", ())
        try:
            rows.empty(self._spark).selectExpr(*messages(rows, self._options))
        except Exception as error:
            raise SinkError(f"query {self._query}: sink kafka: {self._reason(error)}") from error

    def publish(self, rows: OutboxRows) -> None:
        self.publish_together([(self, rows)])

    def publish_together(self, rows: Sequence[tuple[ExecutorWriter, OutboxRows]]) -> None:
        see_added(self._spark)
        try:
            frames = [
                each.frame(self._spark).selectExpr(*messages(each, writer._options))
                for writer, each in rows
                if isinstance(writer, KafkaWriter)
            ]
            whole = reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), frames)
            whole.write.format("kafka").options(**self._passed).mode("append").save()
        except Exception as error:
            names = ", ".join(sorted({each.query.name for _, each in rows}))
            whose = "query" if len(rows) == 1 else "queries"
            said = self._unwritable(rows) or self._reason(error)
            raise SinkError(f"{whose} {names}: sink kafka: {said}") from error

    def _unwritable(self, rows: Sequence[tuple[ExecutorWriter, OutboxRows]]) -> str | None:
        """The topic that a failed write could not reach; None if all exist, or if the rows cannot be read.

        Spark itself may not know it: its driver reads an error of Kafka's client only if it had the client's classes
        from its start, and otherwise reports an unknown reason.
        """
        named_by: dict[str, str] = {}
        try:
            for writer, each in rows:
                if not isinstance(writer, KafkaWriter):
                    continue
                column = writer._options.get("topic_column")
                if column is None:
                    named_by.setdefault(writer._options["topic"], "option topic")
                    continue
                topics = each.frame(self._spark).selectExpr(f"{named(column)} AS topic").distinct().collect()
                for topic in sorted(row.topic for row in topics if row.topic is not None):
                    named_by.setdefault(topic, f"column {column}")
            for topic in named_by:
                if (wrong := topic_problem(topic)) is not None:
                    return f"{named_by[topic]}: {wrong}"
            for topic in absent(self._spark, self._options, named_by):
                return missing(topic, self._options[SERVERS], named_by[topic])
        except ClusterProblem as problem:
            return str(problem)
        except spark_errors():
            return None
        return None

    def _reason(self, error: Exception) -> str:
        return without_secrets(reason(error), self._options)


def messages(rows: OutboxRows, options: Mapping[str, str]) -> list[str]:
    """Spark SQL over the columns of `rows`: a message's `topic`, `value`, `key` and `headers`."""
    query = rows.query
    names = [named(name) for name in query.schema.names]
    form = VALUE_FORMAT.chosen(options)
    row = f"struct({', '.join(names)})"
    match form:
        case "raw":
            chosen = {name.lower(): named(name) for name in query.schema.names}
        case "text":
            chosen = {"value": names[0]}
        case "avro":
            chosen = {"value": encoded(row, options)}
        case _:
            chosen = {"value": f"to_{form}({row}, map('timestampFormat', '{_MICROSECONDS}'))"}
    chosen["value"] = f"CAST({chosen['value']} AS BINARY)"
    if query.mode == "update":
        chosen["value"] = f"IF({DELETED}, NULL, {chosen['value']})"
    key = _key(rows, options) if form != "raw" else chosen.get("key")
    if key is not None:
        chosen["key"] = f"CAST({key} AS BINARY)"
    headers = _headers(rows, options)
    if headers:
        chosen["headers"] = f"array({', '.join(headers)})"
    topic = options.get("topic_column")
    chosen["topic"] = named(topic) if topic is not None else _text(options["topic"])
    return [f"{sql} AS {name}" for name, sql in chosen.items()]


def _key(rows: OutboxRows, options: Mapping[str, str]) -> str | None:
    given = options.get("key")
    if given is not None:
        column = next((f for f in rows.query.schema.fields if f.name.lower() == given.lower()), None)
        sql = given if column is None else named(column.name)
        return sql if column is not None and column.type == BINARY else f"CAST({sql} AS STRING)"
    if rows.query.mode != "update":
        return None
    if not rows.identity:
        # An aggregate without GROUP BY has one row.
        return "'[]'"
    # A JSON array of the values that identify the row.
    return f"to_json(array({', '.join(f'CAST({name} AS STRING)' for name in rows.identity)}))"


def _headers(rows: OutboxRows, options: Mapping[str, str]) -> list[str]:
    found = [(_text(name), f"CAST({named(name)} AS STRING)") for name in listed(options, "headers")]
    if options.get("epoch_header") == "true":
        # One partition per place, read in order: an epoch that is sent again has the same numbers.
        number = f"concat({_text(f'{rows.query.name}/{rows.epoch}/')}, monotonically_increasing_id())"
        found.append(("'headgate'", number))
    return [f"struct({name} AS key, CAST({value} AS BINARY) AS value)" for name, value in found]


def _form_problem(options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
    """Why a value cannot be made of these columns."""
    form = VALUE_FORMAT.chosen(options)
    if form == "text" and (len(schema) != 1 or schema[0].type not in (STRING, BINARY)):
        return OptionProblem("value_format", "value_format text takes a query with one column, STRING or BINARY")
    sinks = {"csv": CsvSink(), "json": JsonSink()}
    if form in sinks:
        problems = [found for field in schema.fields if (found := sinks[form].column_problem(field)) is not None]
        return OptionProblem("value_format", problems[0]) if problems else None
    if form != "raw":
        return None
    for option in ("key", "headers", "epoch_header", "topic_column"):
        if option in options:
            what = "name it with AS key" if option == "key" else "leave the option out"
            return OptionProblem(option, f"with value_format raw, the query's own columns are written; {what}")
    if not any(f.name.lower() == "value" and f.type in (STRING, BINARY) for f in schema.fields):
        return OptionProblem("value_format", "value_format raw takes a query with a column value, STRING or BINARY")
    for field in schema.fields:
        if field.name.lower() not in _RAW:
            had = f"{field.name} {sql_name(field.type)}"
            return OptionProblem("value_format", f"value_format raw writes the columns {', '.join(_RAW)}; not {had}")
    return None


def _text(value: str) -> str:
    return f"'{quoted(value)}'"
