"""Kafka topics as streams, read through Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headgate.connectors.avro_values import AVRO_OPTIONS, avro_problem, decoded
from headgate.connectors.columns import named
from headgate.connectors.contract import Guarantee, SourceGroup, quoted
from headgate.connectors.kafka_cluster import SERVERS, ClusterProblem, check, require, subscribed, topic_problem
from headgate.connectors.spark_format import SparkFormatSource, check_columns
from headgate.connectors.value_format import RAW, parsed_row, value_format, value_problem
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Stream
from headgate.graph.types import BIGINT, BINARY, INT, STRING, TIMESTAMP, Schema, sql_name
from headgate.spark.packages import AVRO, KAFKA
from headgate.spark.source_rows import SourceError, SourceRows
from headgate.spark.valid_text import valid_text

VALUE_FORMAT = value_format("json", "csv", "avro", "text", "raw")
DEAD_LETTER_TOPIC = OptionDeclaration(
    "dead_letter_topic", "topic that malformed values are sent to, beside the folder of dead letters"
)

_HEADERS = pa.list_(pa.struct([("key", STRING), ("value", BINARY)]))
_OWN: dict[str, tuple[str, pa.DataType | None, str]] = {
    "key_column": ("key", None, "the message's key"),
    "timestamp_column": ("timestamp", TIMESTAMP, "the message's time"),
    "topic_column": ("topic", STRING, "the name of its topic"),
    "partition_column": ("partition", INT, "the number of its partition"),
    "offset_column": ("offset", BIGINT, "its offset in the partition"),
    "headers_column": ("headers", _HEADERS, "its headers"),
}
"""Options that name the declared column for one of Kafka's own: Kafka's column, its type (None: STRING or BINARY, or a
type that a STRING can be cast to) and its description."""
_CHOSEN = ("subscribe", "subscribePattern", "assign")
FETCH_WAIT = OptionDeclaration(
    "kafka.fetch.max.wait.ms",
    "milliseconds for which the broker holds a request for messages that do not exist yet",
    "integer",
    default="0",
)
"""Kafka's own default is 500. Its consumer asks for the next messages before it returns those it has, and Spark's
reader then asks for both ends of the partition, on the same connection: that answer waits behind the held request, for
every partition and micro-batch. Spark reads only messages that exist, so there is nothing to hold a request for. Even
1 ms costs: a broker holds requests on a timer, and reading nine partitions took 60 ms with 1, 20 ms with 0."""


def _column_option(name: str) -> OptionDeclaration:
    column, type_, about = _OWN[name]
    shown = f", {sql_name(type_)}" if type_ is not None and column != "headers" else ""
    return OptionDeclaration(name, f"declared column{shown}, that is filled with {about} instead of from the value")


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
            *AVRO_OPTIONS,
            *(_column_option(name) for name in _OWN),
            DEAD_LETTER_TOPIC,
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
            FETCH_WAIT,
        ),
        one_of=((SERVERS,), _CHOSEN),
        prefixes=("kafka.",),
        lower=True,
        refused={
            "endingOffsets": "a stream has no end; select by the column offset or timestamp instead",
            "endingTimestamp": "a stream has no end; select by the column timestamp instead",
            "endingOffsetsByTimestamp": "a stream has no end; select by the column timestamp instead",
        },
    )
    example = "'kafka.bootstrap.servers' 'localhost:9092', subscribe 'sensors', value_format 'json'"
    together = "subscribe"
    guarantee = Guarantee(
        True,
        "the commit of an epoch names the offsets that it has read, while Kafka keeps the messages",
        "tests/kafka/test_kafka_to_kafka.py::test_nothing_is_lost_or_doubled",
    )

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        given = [name for name in _CHOSEN if name in options]
        if len(given) > 1:
            return OptionProblem(given[1], f"give either {given[0]} or {given[1]}")
        named = [(given[0], topic) for topic in subscribed(options)]
        named += [(DEAD_LETTER_TOPIC.name, options[name]) for name in (DEAD_LETTER_TOPIC.name,) if name in options]
        for option, topic in named:
            if (wrong := topic_problem(topic)) is not None:
                return OptionProblem(option, wrong)
        raw = VALUE_FORMAT.chosen(options) == "raw"
        if options.get("includeHeaders") == "true" and not raw:
            return OptionProblem("includeHeaders", "includeHeaders needs value_format raw; give headers_column")
        for name in (*_OWN, DEAD_LETTER_TOPIC.name):
            if name in options and raw:
                return OptionProblem(name, f"{name} needs a value_format other than raw")
        found = _own_problem(options, schema)
        if found is not None:
            return found
        left = _from_value(options, schema)
        return avro_problem(options, left, True) or value_problem(VALUE_FORMAT, options, left)

    def combine(self, spark: Any, values: Sequence[str]) -> tuple[str, list[str]]:
        del spark
        topics = [value.strip() for value in values]
        return ",".join(topics), [f"topic = '{quoted(topic)}'" for topic in topics]

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        group = self.group(spark, streams)
        stream = streams[0]
        form = VALUE_FORMAT.chosen(stream.options)
        self.provide(spark, stream, *([KAFKA, AVRO] if form == "avro" else [KAFKA]))
        for each in streams:
            try:
                check(spark, each.options, subscribed(each.options))
                if DEAD_LETTER_TOPIC.name in each.options:
                    require(spark, each.options, each.options[DEAD_LETTER_TOPIC.name], DEAD_LETTER_TOPIC.name)
            except ClusterProblem as problem:
                raise SourceError(f"stream {each.name}: source kafka: {problem}") from problem
        ours = {VALUE_FORMAT.name, DEAD_LETTER_TOPIC.name, *(option.name for option in AVRO_OPTIONS), *_OWN}
        options = {key: value for key, value in group.options.items() if key not in ours}
        if "headers_column" in stream.options:
            options["includeHeaders"] = "true"
        options[FETCH_WAIT.name] = FETCH_WAIT.chosen(options)
        frame = self.load(spark, stream, options)
        if form == "raw":
            check_columns(stream, stream.source, frame, " (or add value_format 'json' to its OPTIONS)")
            return SourceRows(frame.selectExpr("*", *group.tag) if group.tag else frame, None, group.member)
        return _rows(stream, frame, form, group)


def _rows(stream: Stream, frame: Any, form: str, group: SourceGroup) -> SourceRows:
    """The declared columns: those of the value, and those that are Kafka's own."""
    left = _from_value(stream.options, stream.schema)
    kept = [] if group.member is None else [group.member]
    own = [f"{_own_sql(option, stream)} AS {named(name)}" for option, name in _own_columns(stream.options)]
    names = [named(name) for _, name in _own_columns(stream.options)]
    values = [named(name) for name in left.names]
    text = "CAST(value AS STRING)"
    if form == "text":
        [column] = values
        return SourceRows(frame.selectExpr(f"{text} AS {column}", *own, *group.tag), None, group.member)
    if form == "avro":
        row, ok = decoded("value", stream.options)
        flaw = f"IF({ok} IS NULL AND value IS NOT NULL, base64(value), NULL) AS {RAW}"
        parsed = frame.selectExpr(f"{row} AS row", "value", *own, *group.tag)
        fields = [f"row.{value} AS {value}" for value in values]
        return SourceRows(parsed.selectExpr(*fields, flaw, *names, *kept), f"`{RAW}`", group.member)
    parsed = frame.selectExpr(f"{parsed_row(form, text, left)} AS row", *own, *group.tag)
    return SourceRows(parsed.selectExpr("row.*", *names, *kept), f"`{RAW}`", group.member, valid=True)


def _own_columns(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """The options that name a column, each with the name."""
    return [(option, options[option]) for option in _OWN if option in options]


def _from_value(options: Mapping[str, str], schema: Schema) -> Schema:
    """The declared columns that come from the value."""
    own = {name.lower() for _, name in _own_columns(options)}
    return Schema(tuple(field for field in schema.fields if field.name.lower() not in own))


def _own_problem(options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
    declared = {field.name.lower(): field for field in schema.fields}
    for option, name in _own_columns(options):
        if name.lower() not in declared:
            return OptionProblem(
                option, f"{option} is {name}, which is not declared; there are {', '.join(schema.names)}"
            )
        _, wanted, about = _OWN[option]
        found = declared[name.lower()].type
        fits = not pa.types.is_nested(found) if wanted is None else sql_name(found) == sql_name(wanted)
        if not fits:
            needed = "a type without members" if wanted is None else sql_name(wanted)
            return OptionProblem(option, f"{name} is {sql_name(found)}; {about} needs {needed}")
    if _own_columns(options) and not _from_value(options, schema).fields:
        return OptionProblem(None, "no column is left for the value; declare one, or leave out value_format")
    return None


def _own_sql(option: str, stream: Stream) -> str:
    column = _OWN[option][0]
    name = stream.options[option].lower()
    type_ = next(field.type for field in stream.schema.fields if field.name.lower() == name)
    if column != "key" or type_ == BINARY:
        return column
    text = valid_text("CAST(key AS STRING)", STRING)
    return text if type_ == STRING else f"try_cast({text} AS {sql_name(type_)})"
