"""Kafka topics, read and written through Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headgate.connectors.contract import Guarantee, ResultSink, quoted
from headgate.connectors.spark_format import SparkFormatSource, missing, package_hint, reason
from headgate.connectors.value_format import VALUE_FORMAT, columns_of, is_raw, value_problem
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query, Stream
from headgate.graph.types import BINARY, STRING, Schema, sql_name
from headgate.spark.outbox_rows import DELETED, OutboxRows
from headgate.spark.results import ExecutorWriter, SinkError, Writer
from headgate.spark.source_rows import SourceRows

_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"
_SERVERS = ("kafka.bootstrap.servers",)


class KafkaSource(SparkFormatSource):
    """Topics of a Kafka cluster."""

    name = "kafka"
    about = "topics of a Kafka cluster: Kafka's own columns (`key`, `value`, `topic` …), or columns by `value_format`"
    limit = MappingProxyType({"maxOffsetsPerTrigger": "50000"})
    options = OptionSet(
        (
            OptionDeclaration("subscribe", "topics, divided by commas"),
            OptionDeclaration("subscribePattern", "regular expression for the topics"),
            OptionDeclaration("assign", "partitions, as JSON"),
            VALUE_FORMAT,
            OptionDeclaration("startingOffsets", "`earliest`, `latest` or offsets as JSON", default="latest"),
            OptionDeclaration("startingTimestamp", "milliseconds from which every partition is read", "integer"),
            OptionDeclaration("startingOffsetsByTimestamp", "milliseconds by topic and partition, as JSON"),
            OptionDeclaration(
                "startingOffsetsByTimestampStrategy",
                "when no offset has such a timestamp",
                choices=("error", "latest"),
                default="error",
            ),
            OptionDeclaration("failOnDataLoss", "stops when rows are gone from Kafka", "boolean", default="true"),
            OptionDeclaration("maxOffsetsPerTrigger", "most rows a micro-batch", "integer", least=1),
            OptionDeclaration("minOffsetsPerTrigger", "fewest rows a micro-batch waits for", "integer", least=1),
            OptionDeclaration("maxTriggerDelay", "longest wait for `minOffsetsPerTrigger`", "time", default="15m"),
            OptionDeclaration("minPartitions", "fewest Spark partitions", "integer", least=1),
            OptionDeclaration("maxRecordsPerPartition", "most rows a Spark partition", "integer", least=1),
            OptionDeclaration("groupIdPrefix", "prefix of the consumer groups", default="spark-kafka-source"),
            OptionDeclaration("includeHeaders", "adds Kafka's column `headers`", "boolean", default="false"),
            OptionDeclaration("kafkaConsumer.pollTimeoutMs", "milliseconds a poll may take", "integer"),
            OptionDeclaration("fetchOffset.numRetries", "attempts to fetch offsets", "integer", default="3"),
            OptionDeclaration("fetchOffset.retryIntervalMs", "milliseconds between them", "integer", default="10"),
        ),
        one_of=(_SERVERS, ("subscribe", "subscribePattern", "assign")),
        prefixes=("kafka.",),
        refused={
            "endingOffsets": "a stream has no end; select by the column offset or timestamp instead",
            "endingTimestamp": "a stream has no end; select by the column timestamp instead",
            "endingOffsetsByTimestamp": "a stream has no end; select by the column timestamp instead",
        },
    )
    example = "'kafka.bootstrap.servers' 'localhost:9092', subscribe 'sensors', value_format 'json'"
    together = "subscribe"
    package = _PACKAGE

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
        if len(given) > 1:
            return OptionProblem(given[1], f"give either {given[0]} or {given[1]}")
        if options.get("includeHeaders") == "true" and not is_raw(options):
            return OptionProblem("includeHeaders", "includeHeaders needs value_format raw: a value has no headers")
        return value_problem(options, schema)

    def combine(self, values: Sequence[str]) -> tuple[str, list[str]]:
        return ",".join(values), [f"topic = '{quoted(topic)}'" for topic in values]

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        group = self.group(streams)
        options = {key: value for key, value in group.options.items() if key != VALUE_FORMAT.name}
        frame = self.load(spark, streams[0], options)
        return columns_of(streams[0], frame, "CAST(value AS STRING)", group)


class KafkaSink(ResultSink):
    """One topic of a Kafka cluster."""

    name = "kafka"
    about = "a topic of a Kafka cluster, a message a row; a deleted row of a query that updates is a null value"
    options = OptionSet(
        (
            OptionDeclaration("topic", "topic that is written to", needed=True),
            OptionDeclaration("key", "column that is the message's key; default: none, or the keys of an update query"),
            OptionDeclaration(
                "value_format",
                "message of a row: a JSON object, a CSV line, its only column (text), or the query's own columns"
                " `value`, `key`, `headers`, `partition` (raw)",
                choices=("json", "csv", "text", "raw"),
                default="json",
            ),
        ),
        one_of=(_SERVERS,),
        prefixes=("kafka.",),
        refused={"includeHeaders": "with value_format raw, a column headers of the query is written"},
    )
    replaces_rows = True
    written_by = "executors"
    guarantee = Guarantee(False, "the messages of the last epochs are sent again after a crash")
    example = "'kafka.bootstrap.servers' 'localhost:9092', topic 'alerts', key 'k', value_format 'json'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        key = options.get("key")
        types = {field.name.lower(): field.type for field in schema.fields}
        if key is not None and key.lower() not in types:
            return OptionProblem(
                "key", f"key is {key}, which is no column of the query; it has {', '.join(schema.names)}"
            )
        form = options.get("value_format", "json")
        if form == "text" and (len(schema) != 1 or schema[0].type not in (STRING, BINARY)):
            return OptionProblem("value_format", "value_format text takes a query with one column, STRING or BINARY")
        if form != "raw":
            return None
        if key is not None:
            return OptionProblem(
                "key", "with value_format raw, the query's own column key is written; name it with AS key"
            )
        if types.get("value") not in (STRING, BINARY):
            return OptionProblem("value_format", "value_format raw takes a query with a column value, STRING or BINARY")
        known = ("key", "value", "headers", "partition")
        for field in schema.fields:
            if field.name.lower() not in known:
                had = f"{field.name} {sql_name(field.type)}"
                return OptionProblem(
                    "value_format", f"value_format raw writes the columns {', '.join(known)}; not {had}"
                )
        return None

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        del run
        try:
            spark.read.format("kafka").load()
        except Exception as error:
            # Without options it refuses to read; that is no sign against it.
            if missing(error):
                message = f"query {query.name}: sink kafka: Spark has no Kafka connector; {package_hint(_PACKAGE)}"
                raise SinkError(message) from error
        return KafkaWriter(spark, query.name, options)


class KafkaWriter(ExecutorWriter):
    """Sends the results of each epoch with Spark's batch writer, whose tasks read them from the outbox."""

    def __init__(self, spark: Any, query: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._query = query
        self._key = options.get("key")
        self._format = options.get("value_format", "json")
        own = ("key", "value_format")
        self._options = {name: value for name, value in options.items() if name not in own}

    def publish(self, rows: OutboxRows) -> None:
        try:
            frame = rows.frame(self._spark).selectExpr(*messages(rows, self._key, self._format))
            frame.write.format("kafka").options(**self._options).mode("append").save()
        except Exception as error:
            raise SinkError(f"query {self._query}: sink kafka: {reason(error)}") from error


def messages(rows: OutboxRows, key: str | None, value_format: str) -> list[str]:
    """Spark SQL over the columns of `rows`: a message's `value` and, if there is one, its `key`."""
    schema = rows.query.schema
    update = rows.query.mode == "update"
    names = [_named(name) for name in schema.names]
    match value_format:
        case "raw":
            chosen = {name.lower(): _named(name) for name in schema.names}
        case "text":
            chosen = {"value": names[0]}
        case form:
            chosen = {"value": f"to_{form}(struct({', '.join(names)}))"}
    if update:
        chosen["value"] = f"IF({DELETED}, NULL, {chosen['value']})"
    if key is not None:
        column = next(field for field in schema.fields if field.name.lower() == key.lower())
        name = _named(column.name)
        chosen["key"] = name if column.type in (STRING, BINARY) else f"CAST({name} AS STRING)"
    elif rows.identity and value_format != "raw":
        # A JSON array of the values that identify the row.
        chosen["key"] = f"to_json(array({', '.join(f'CAST({name} AS STRING)' for name in rows.identity)}))"
    return [f"{sql} AS {name}" for name, sql in chosen.items()]


def _named(column: str) -> str:
    return f"`{column.replace('`', '``')}`"
