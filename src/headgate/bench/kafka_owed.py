"""How many records the queries of the Kafka bench owe for the rows that were sent, by Spark's batch answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import inf
from typing import Any

import pyarrow as pa

from headgate.bench.feed import SCHEMA
from headgate.bench.kafka_sides import DELAY, KafkaWork, TopicNames
from headgate.feeder.feeder import Feeder


def sent_rows(spark: Any, place: TopicNames, work: KafkaWork) -> dict[str, Any]:
    """The rows in the topics now: a frame for each stream."""
    names = {place.source(stream): stream for stream in work.streams}
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", place.servers)
    reader = reader.option("subscribe", ",".join(names)).option("kafka.fetch.max.wait.ms", "0")
    rows = reader.load().selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row", "topic")
    # Read once, as Arrow: the queries of a side may still run, and Spark's jobs wait for theirs.
    table = rows.selectExpr("row.*", "topic").toArrow()
    topics = table.column("topic").to_numpy()
    return {
        stream: spark.createDataFrame(table.filter(pa.array(topics == topic)).drop_columns(["topic"]))
        for topic, stream in names.items()
    }


def rows_of(spark: Any, feeder: Feeder, target: CollectedRows, seconds: float) -> dict[str, Any]:
    """The rows that a feeder sends in so many seconds: a frame for each stream. They depend on its seed alone."""
    feeder.advance(seconds)
    return {stream: spark.createDataFrame(pa.concat_tables(tables)) for stream, tables in target.tables.items()}


class CollectedRows:
    """A feeder's target that keeps the rows."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def send(self, stream: str, rows: pa.Table) -> None:
        self.tables.setdefault(stream, []).append(rows)

    def close(self) -> None:
        pass


def owed(
    spark: Any, work: KafkaWork, rows: Mapping[str, Any], since: float = -inf, until: float = inf
) -> dict[str, int]:
    """The number of records that each query owes for the rows, of those that are due in a time (see `due`)."""
    for stream, frame in rows.items():
        frame.createOrReplaceTempView(stream)
    if work.selections:
        return _selected(spark, work, since, until)
    found: dict[str, int] = {}
    for name, select in work.queries.items():
        closed = f"greatest(arrived, unix_micros(w.end) / 1e6 + {DELAY})"
        within = _within(closed if name in work.windowed else "arrived", since, until)
        [(count,)] = spark.sql(f"SELECT count_if({within}) FROM ({select})").collect()
        found[name] = int(count)
    return found


def _selected(spark: Any, work: KafkaWork, since: float, until: float) -> dict[str, int]:
    """The same for selections: one query a stream counts for all of them."""
    frames = []
    for stream in work.streams:
        counts = [
            f"'{name}', count_if({each.condition})" for name, each in work.selections.items() if each.stream == stream
        ]
        frames.append(
            spark.sql(
                f"SELECT map({', '.join(counts)}) AS found FROM {stream} WHERE {_within('arrived', since, until)}"
            )
        )
    whole = reduce(lambda one, two: one.unionByName(two), frames)
    return {name: int(count) for row in whole.collect() for name, count in row.found.items()}


def _within(moment: str, since: float, until: float) -> str:
    bounds = [f"{moment} {sign} {time!r}D" for sign, time in ((">=", since), ("<", until)) if abs(time) < inf]
    return " AND ".join(bounds) or "true"
