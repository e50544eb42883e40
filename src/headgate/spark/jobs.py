"""The Spark jobs of epochs: they take a request to the host and return its answer."""

from __future__ import annotations

from typing import Any, Protocol

from headgate.spark.host_client import close_host
from headgate.spark.messages import ANSWER_DDL, PROPERTY, EpochAnswer, EpochRequest
from headgate.spark.processes import node
from headgate.spark.spark_errors import expecting_errors
from headgate.spark.task import bring, carry


class Jobs(Protocol):
    """Runs the jobs of epochs. Everything but `cancel` is called by one thread."""

    def answers(self, packed: Any) -> Any:
        """The frame of answers to packed rows; reads no rows."""
        ...

    def collect(self, answers: Any, request: EpochRequest) -> EpochAnswer:
        """Runs the job over a frame of answers."""
        ...

    def ask(self, request: EpochRequest) -> EpochAnswer:
        """An epoch without new rows."""
        ...

    def cancel(self) -> None:
        """Ends the running job, which then raises."""
        ...


class SparkJobs:
    """Jobs of a Spark session."""

    def __init__(self, spark: Any, group: str) -> None:
        self._spark = spark
        self._group = group
        self._empty: Any = None
        self._asked: EpochRequest | None = None

    def answers(self, packed: Any) -> Any:
        return packed.coalesce(1).mapInArrow(carry, ANSWER_DDL)

    def collect(self, answers: Any, request: EpochRequest) -> EpochAnswer:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, f"epoch {request.epoch}", interruptOnCancel=True)
        context.setLocalProperty(PROPERTY, request.text())
        with expecting_errors():
            [row] = answers.collect()
        return EpochAnswer.unpack(bytes(row[0]))

    def ask(self, request: EpochRequest) -> EpochAnswer:
        host = request.host
        if host is not None and host.node == node():
            # A host beside the driver needs no job.
            self._asked = request
            try:
                return EpochAnswer.unpack(bring(request, "driver", iter(())))
            finally:
                self._asked = None
        if self._empty is None:
            # One frame for all such epochs: Spark plans it once.
            self._empty = self.answers(self._spark.range(0))
        return self.collect(self._empty, request)

    def cancel(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group)
        asked = self._asked
        if asked is not None and asked.host is not None:
            close_host(asked.host, asked.token)
