"""The sides of the Kafka bench: Headgate, plain Structured Streaming, and one `foreachBatch` query by an expert."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headgate.bench.feed import SCHEMA
from headgate.engine import Engine

DELAY = 1.0
"""Seconds that a watermark is behind the newest row, on all sides."""
_STAGE = 100
"""Selections, at most, whose code fits into one method of Java."""
_STOPPERS = 16
"""Streaming queries that are stopped at the same time."""


@dataclass(frozen=True)
class TopicSelection:
    """A query that only selects, in parts: the expert's query uses the condition alone."""

    stream: str
    condition: str

    @property
    def sql(self) -> str:
        return f"SELECT ts, location, temperature, arrived FROM {self.stream} WHERE {self.condition}"


@dataclass(frozen=True)
class KafkaWork:
    """Queries over topics: `queries` by name, `classes` for Headgate; `selections` if all queries are selections."""

    queries: Mapping[str, str]
    classes: Mapping[str, str]
    streams: Sequence[str]
    selections: Mapping[str, TopicSelection]

    @property
    def windowed(self) -> list[str]:
        """The queries that emit a window when its watermark has passed."""
        return [name for name, select in self.queries.items() if "GROUP BY window(" in select]


@dataclass(frozen=True)
class TopicNames:
    """The broker, and the prefix of the topics of one side: `<prefix>in.<stream>` and `<prefix>out.<query>`."""

    servers: str
    prefix: str

    def source(self, stream: str) -> str:
        return f"{self.prefix}in.{stream}"

    def sink(self, query: str) -> str:
        return f"{self.prefix}out.{query}"


class KafkaEngine:
    """All queries in one engine."""

    def __init__(self, spark: Any, work: KafkaWork, place: TopicNames, priorities: Mapping[str, int]) -> None:
        # Triggers are not limited, as those of the other sides are not.
        engine = self._engine = Engine("cqc", spark=spark, budget=0.5, trigger_cores=None)
        for cls, priority in priorities.items():
            engine.execute(f"CREATE CLASS {cls} WITH (priority = {priority})")
        for stream in work.streams:
            engine.execute(
                f"CREATE STREAM {stream} ({SCHEMA}, WATERMARK FOR ts AS ts - INTERVAL {DELAY} SECONDS) USING kafka"
                f" OPTIONS (subscribe '{place.source(stream)}', 'kafka.bootstrap.servers' '{place.servers}',"
                " value_format 'json', startingOffsets 'earliest')"
            )
        for name, select in work.queries.items():
            engine.execute(
                f"CREATE QUERY {name} CLASS {work.classes[name]} INTO kafka OPTIONS (topic '{place.sink(name)}',"
                f" 'kafka.bootstrap.servers' '{place.servers}') AS {select}"
            )

    def start(self) -> None:
        self._engine.start()

    def wait(self, seconds: float) -> None:
        self._engine.wait(seconds)

    def check(self) -> None:
        """Raises the error that the engine ended with."""
        self._engine.wait(0.0)

    def stop(self) -> None:
        self._engine.stop()


class _Streaming:
    """Streaming queries with separate checkpoints."""

    def __init__(self, spark: Any, work: KafkaWork, place: TopicNames) -> None:
        self._spark = spark
        self._work = work
        self._place = place
        self._folder = tempfile.mkdtemp(prefix="headgate-bench-kafka-")
        self._running: list[Any] = []

    def _read(self, topics: str) -> Any:
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._place.servers)
        frame = reader.option("subscribe", topics).option("startingOffsets", "earliest").load()
        return frame.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS row", "topic").selectExpr(
            "row.*", "topic"
        )

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.check()

    def check(self) -> None:
        """Raises the error of a query that has failed."""
        for query in self._running:
            error = query.exception()
            if error is not None:
                raise error

    def stop(self) -> None:
        # Each waits for the end of its trigger, but not longer than the session says.
        self._spark.sparkContext.cancelAllJobs()
        with ThreadPoolExecutor(_STOPPERS) as threads:
            list(threads.map(_stop, self._running))
        shutil.rmtree(self._folder, ignore_errors=True)


def _stop(query: Any) -> None:
    # Spark's end, which follows, ends a query that does not stop.
    with suppress(Exception):
        query.stop()


class KafkaPlain(_Streaming):
    """One streaming query for each query, each with its own read of its topics."""

    def start(self) -> None:
        for stream in self._work.streams:
            rows = self._read(self._place.source(stream)).drop("topic")
            rows.withWatermark("ts", f"{DELAY} seconds").createOrReplaceTempView(stream)
        for name, select in self._work.queries.items():
            answers = self._spark.sql(select)
            columns = ", ".join(f"`{column}`" for column in answers.columns)
            writer = answers.selectExpr(f"to_json(struct({columns})) AS value").writeStream.format("kafka")
            writer = writer.option("kafka.bootstrap.servers", self._place.servers)
            writer = writer.option("topic", self._place.sink(name))
            self._running.append(writer.option("checkpointLocation", f"{self._folder}/{name}").start())


class KafkaExpert(_Streaming):
    """One streaming query for all selections: the conditions of a row's topic say into which topics it is written."""

    def start(self) -> None:
        cases = []
        for stream in self._work.streams:
            wanted = ", ".join(
                f"CASE WHEN {each.condition} THEN '{self._place.sink(name)}' END"
                for name, each in self._work.selections.items()
                if each.stream == stream
            )
            cases.append(f"WHEN '{self._place.source(stream)}' THEN array({wanted})")
        every = f"CASE topic {' '.join(cases)} END AS every"
        value = "to_json(struct(ts, location, temperature, arrived)) AS value"

        def write(frame: Any, batch: int) -> None:
            del batch
            # A higher-order function (`filter`) instead of the explosion and `where` would be interpreted.
            each = frame.selectExpr("*", every).selectExpr("*", "explode(every) AS wanted").where("wanted IS NOT NULL")
            rows = each.selectExpr(value, "wanted AS topic")
            rows.write.format("kafka").option("kafka.bootstrap.servers", self._place.servers).save()

        # The code of a whole stage is one method, at most 64 KB; that of a projection is divided into several.
        fits = len(self._work.queries) <= _STAGE
        self._spark.conf.set("spark.sql.codegen.wholeStage", str(fits).lower())
        frame = self._read(",".join(self._place.source(stream) for stream in self._work.streams))
        writer = frame.writeStream.foreachBatch(write)
        self._running.append(writer.option("checkpointLocation", f"{self._folder}/all").start())
