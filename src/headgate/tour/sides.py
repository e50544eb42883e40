"""The two sides of the tour: plain Structured Streaming, a streaming query each, and Headgate, one job for all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headgate.bench.plain import Plain
from headgate.connectors import callback
from headgate.engine import Engine
from headgate.graph.queries import Sink
from headgate.tour import functions
from headgate.tour.answers import Answers
from headgate.tour.places import TourPlace
from headgate.tour.plan import FIRST_POLICY, STREAMS, UPDATING, TourQuery, declarations

BUDGET = 0.25
LATENCY = "250 ms"
"""Latency spec of the queries of class critical: without one, Headgate pauses between epochs to save processor time."""
WARM_EPOCHS = 40
"""Epochs after which Headgate is warm: Spark's code is mostly compiled, as in an engine that has run for a while."""


@dataclass(frozen=True)
class QueueState:
    """The rows and bytes in the queues of a side."""

    rows: int
    bytes: int


class Side(Protocol):
    """One side of the comparison. `answers` collects the results of its queries."""

    title: str
    answers: Answers

    def start(self) -> None:
        """Starts all queries; they read the rows that are there."""
        ...

    def warm(self) -> bool:
        """Whether every query has run, so that measurements from now on exclude the start."""
        ...

    def queues(self) -> QueueState | None:
        """What waits in the queues; None if the side does not report it."""
        ...

    def failures(self) -> dict[str, str]:
        """The queries that have failed, with the error in one line."""
        ...

    def stop(self) -> None: ...


class PlainSide:
    """21 streaming queries over the same two streams, in the session that Headgate makes."""

    title = "plain Structured Streaming"

    def __init__(self, spark: Any, queries: Sequence[TourQuery], place: TourPlace) -> None:
        from pyspark.sql.pandas.functions import arrow_udf

        vectorized: Any = arrow_udf
        self.answers = Answers()
        self._queries = queries
        for name in ("spread", "fahrenheit"):
            spark.udf.register(name, vectorized(getattr(functions, name), "double"))
        schemas = {stream: columns for stream, columns, _ in declarations(place)}
        self._plain = Plain(
            spark,
            {query.name: query.select for query in queries},
            STREAMS,
            lambda stream: place.read(spark, stream, schemas[stream]),
            self.answers.add,
            delay=0.2,
            updating=UPDATING,
        )

    def start(self) -> None:
        self._plain.start()

    def warm(self) -> bool:
        return all(self._plain.triggers.get(query.name, 0) >= 1 for query in self._queries)

    def queues(self) -> QueueState | None:
        return None

    def failures(self) -> dict[str, str]:
        return {name: one_line(error) for name, error in self._plain.failures().items()}

    def stop(self) -> None:
        self._plain.stop()


class HeadgateSide:
    """The same queries in one engine."""

    title = "Headgate"

    def __init__(self, spark: Any, head: str, queries: Sequence[TourQuery], place: TourPlace) -> None:
        self.answers = Answers()
        self.engine = Engine(FIRST_POLICY, spark=spark, budget=BUDGET)
        self.engine.execute(head, file="forest.sql")
        for _, _, statement in declarations(place):
            self.engine.execute(statement)
        for query in queries:
            spec = {"latency": LATENCY} if query.cls == "critical" else None
            self.engine.query(query.name, query.select, cls=query.cls, sink=self._sink(query.name), spec=spec)

    def start(self) -> None:
        self.engine.start()

    def warm(self) -> bool:
        return bool(self.engine.metrics()["epochs"] >= WARM_EPOCHS)

    def queues(self) -> QueueState | None:
        metrics = self.engine.metrics()
        return QueueState(metrics["waiting"], int(metrics.get("memory", {}).get("bytes", 0)))

    def failures(self) -> dict[str, str]:
        queries = self.engine.metrics()["queries"]
        return {name: one_line(query["error"]) for name, query in queries.items() if query["error"]}

    def stop(self) -> None:
        self.engine.stop()

    def _sink(self, name: str) -> Sink:
        def take(rows: pa.Table) -> None:
            self.answers.add(name, rows)

        return callback(take)


def one_line(error: str) -> str:
    """Extracts the error that a function raised from the message of Spark or Headgate.

    >>> one_line("... PythonException: Traceback …\\n  File …\\nValueError: too cold\\n\\n at org.apache …")
    'ValueError: too cold'
    """
    found = re.findall(r"\w+(?:Error|Exception): (?!.*(?:Error|Exception): ).+", error)
    return " ".join((found[-1] if found else error.split("\n")[0]).split())
