"""The Spark jobs of epochs: they take a request to the host and return its answer."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Protocol

from headgate.spark.host_client import close_host
from headgate.spark.messages import ANSWER_DDL, PROPERTY, EpochAnswer, EpochRequest
from headgate.spark.processes import node
from headgate.spark.replies import Replies
from headgate.spark.spark_errors import expecting_errors
from headgate.spark.task import bring, carry


class Jobs(Protocol):
    """Runs the jobs of epochs. Everything but `cancel` is called by one thread."""

    def answers(self, packed: Any) -> Any:
        """The frame of answers to packed rows; reads no rows."""
        ...

    def collect(self, answers: Any, request: EpochRequest) -> EpochAnswer:
        """Runs the job over a frame of answers. It may still be running when the answer is known: see `end_job`."""
        ...

    def end_job(self) -> None:
        """Waits for the end of the job whose answer is known; an error that it ends with no longer matters."""
        ...

    def ask(self, request: EpochRequest) -> EpochAnswer:
        """An epoch without new rows."""
        ...

    def cancel(self) -> None:
        """Ends the running job, which then raises."""
        ...

    def close(self) -> None:
        """No job follows."""
        ...


class SparkJobs:
    """Jobs of a Spark session. `replies`: where hosts beside the driver send their answers, too."""

    def __init__(self, spark: Any, group: str, replies: Replies | None = None) -> None:
        self._spark = spark
        self._group = group
        self._replies = replies
        self._thread = ThreadPoolExecutor(1, "headgate-job")
        self._job: Future[tuple[EpochAnswer, ...]] | None = None
        self._empty: Any = None
        self._asked: EpochRequest | None = None

    def answers(self, packed: Any) -> Any:
        return packed.coalesce(1).mapInArrow(carry, ANSWER_DDL)

    def collect(self, answers: Any, request: EpochRequest) -> EpochAnswer:
        if self._replies is None:
            return self._run(answers, request)[0]
        asked = replace(request, reply=self._replies.address)
        return self._replies.first(asked, 1, lambda: self._start(answers, asked))[0]

    def end_job(self) -> None:
        if self._job is not None:
            wait([self._job])
            self._job = None

    def _start(self, answers: Any, request: EpochRequest) -> Future[tuple[EpochAnswer, ...]]:
        self._job = self._thread.submit(self._run, answers, request)
        return self._job

    def _run(self, answers: Any, request: EpochRequest) -> tuple[EpochAnswer, ...]:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, f"epoch {request.epoch}", interruptOnCancel=True)
        context.setLocalProperty(PROPERTY, request.text())
        with expecting_errors():
            [row] = answers.collect()
        return (EpochAnswer.unpack(bytes(row[0])),)

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

    def close(self) -> None:
        self._thread.shutdown(wait=False)
        if self._replies is not None:
            self._replies.close()
