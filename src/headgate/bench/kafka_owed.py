"""How many records the queries of the Kafka bench owe for the rows that were sent.

Selections are counted by SQLite, beside the running side: a job of Spark would wait for the tasks of 200 queries that
Spark interprets, for minutes. Windows and joins are counted by Spark's batch answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from math import inf
from typing import Any

import pyarrow as pa

from headgate.bench.kafka_sides import DELAY, KafkaWork, TopicNames
from headgate.bench.kafka_topics import input_rows
from headgate.feeder.feed import EVENT_TIME
from headgate.feeder.feeder import Feeder

_SENT = pa.schema(
    {
        "ts": EVENT_TIME,
        "location": pa.string(),
        "temperature": pa.int32(),
        "humidity": pa.int32(),
        "arrived": pa.float64(),
    }
)
"""The columns of `headgate.bench.feed.SCHEMA`."""


def sent_rows(place: TopicNames, work: KafkaWork) -> dict[str, pa.Table]:
    """The rows in the topics now, by stream."""
    return {stream: _table(input_rows(place, stream)) for stream in work.streams}


def _table(rows: Iterator[dict[str, Any]]) -> pa.Table:
    parsed = [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in rows]
    return pa.Table.from_pylist(parsed, schema=_SENT)


def rows_of(feeder: Feeder, target: CollectedRows, seconds: float) -> dict[str, pa.Table]:
    """The rows that a feeder sends in so many seconds, by stream. They depend on its seed alone."""
    feeder.advance(seconds)
    return {stream: pa.concat_tables(tables) for stream, tables in target.tables.items()}


class CollectedRows:
    """A feeder's target that keeps the rows."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def send(self, stream: str, rows: pa.Table) -> None:
        self.tables.setdefault(stream, []).append(rows)

    def close(self) -> None:
        pass


def owed(
    spark: Any, work: KafkaWork, rows: Mapping[str, pa.Table], since: float = -inf, until: float = inf
) -> dict[str, int]:
    """The records that the queries owe for these rows, of those that are due in a time (see `due`)."""
    if work.selections:
        return _selected(work, rows, since, until)
    for stream, table in rows.items():
        spark.createDataFrame(table).createOrReplaceTempView(stream)
    found: dict[str, int] = {}
    for name, select in work.queries.items():
        closed = f"greatest(arrived, unix_micros(w.end) / 1e6 + {DELAY})"
        within = _within(closed if name in work.windowed else "arrived", since, until, "D")
        [(count,)] = spark.sql(f"SELECT count_if({within}) FROM ({select})").collect()
        found[name] = int(count)
    return found


def _selected(work: KafkaWork, rows: Mapping[str, pa.Table], since: float, until: float) -> dict[str, int]:
    """The same for selections, whose conditions mean the same in SQLite."""
    columns = ["location", "temperature", "humidity", "arrived"]
    found: dict[str, int] = {}
    with closing(sqlite3.connect(":memory:")) as database:
        for stream, table in rows.items():
            database.execute(f"CREATE TABLE {stream} ({', '.join(columns)})")
            values = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
            database.executemany(f"INSERT INTO {stream} VALUES (?, ?, ?, ?)", values)
        for name, each in work.selections.items():
            condition = f"{each.condition} AND {_within('arrived', since, until)}"
            [(count,)] = database.execute(f"SELECT count(*) FROM {each.stream} WHERE {condition}")
            found[name] = int(count)
    return found


def _within(moment: str, since: float, until: float, suffix: str = "") -> str:
    """The condition that a moment is in a time. `suffix` marks literals of type DOUBLE."""
    bounds = [f"{moment} {sign} {time!r}{suffix}" for sign, time in ((">=", since), ("<", until)) if abs(time) < inf]
    return " AND ".join(bounds) or "true"
