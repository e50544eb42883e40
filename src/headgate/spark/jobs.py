"""The Spark jobs of epochs: they take a request to the host of every replica and return the answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from headgate.spark.host_client import HostLost, close_hosts
from headgate.spark.messages import ANSWER_DDL, PROPERTY, EpochAnswer, JobRequest
from headgate.spark.processes import node
from headgate.spark.replies import NoReply, Replies
from headgate.spark.spark_errors import expecting_errors
from headgate.spark.task import REPLICA, bring, carry, spread

MOST_TASKS = 4
"""Number of tasks, at most, that read the rows of an epoch for the hosts beside the driver. More would not help: all
rows of a replica enter one process."""

Answers = tuple[EpochAnswer, ...]
"""The answer of every replica, in their order."""


class Jobs(Protocol):
    """Runs the jobs of epochs. Everything but `cancel` is called by one thread."""

    def answers(self, packed: Any, replicas: int) -> Any:
        """The frame of answers to packed rows; reads no rows. With several replicas, the column `REPLICA` of a row says
        where it goes."""
        ...

    def collect(self, answers: Any, request: JobRequest) -> Answers:
        """Runs the job over a frame of answers and returns them. The job may still be running then: see `end_job`."""
        ...

    def end_job(self) -> None:
        """Waits for the end of the job whose answers are known; an error that it ends with no longer matters."""
        ...

    def ask(self, request: JobRequest) -> Answers:
        """Runs an epoch without new rows."""
        ...

    def cancel(self) -> None:
        """Ends the running job, which then raises."""
        ...

    def close(self) -> None:
        """No job follows."""
        ...


class SparkJobs:
    """Jobs of a Spark session. `replies`: the socket to which hosts beside the driver also send their answers.

    Where hosts reply, Spark need not bring the answers to the driver: the job runs over the RDD of the micro-batch, and
    its rows are only counted. That saves planning a query and passing its result, 9 of 112 ms of a trigger.
    """

    def __init__(self, spark: Any, group: str, replies: Replies | None = None) -> None:
        self._spark = spark
        self._group = group
        self._replies = replies
        self._thread = ThreadPoolExecutor(1, "headgate-job")
        self._job: Future[Answers | None] | None = None
        self._empty: dict[int, Any] = {}
        self._asked: JobRequest | None = None
        self._counts = True
        self.last = time.monotonic()
        """When the last job began, by the monotonic clock."""
        # On a cluster the tasks may run on several nodes, and each would start a host before the driver knows one.
        self._tasks = 1 if replies is None else min(MOST_TASKS, spark.sparkContext.defaultParallelism)

    def answers(self, packed: Any, replicas: int) -> Any:
        if replicas == 1:
            return packed.coalesce(self._tasks).mapInArrow(carry, ANSWER_DDL)
        if self._replies is not None:
            # All hosts are beside the driver.
            return packed.coalesce(self._tasks).mapInArrow(spread, ANSWER_DDL)
        return packed.repartitionById(replicas, REPLICA).drop(REPLICA).mapInArrow(carry, ANSWER_DDL)

    def collect(self, answers: Any, request: JobRequest) -> Answers:
        return self._collect(answers, request, self._tasks > 1)

    def _collect(self, answers: Any, request: JobRequest, several: bool) -> Answers:
        """`several`: whether several tasks bring rows to a host."""
        if self._replies is None:
            return self._run(answers, request)
        rdd = batch_rdd(answers) if self._counts else None
        if several:
            rows = rdd if rdd is not None else answers._jdf.queryExecution().toRdd()
            tasks = rows.getNumPartitions()
            if not tasks:
                return self.ask(request)
            request = replace(request, common=replace(request.common, tasks=tasks))
        asked = replace(request, common=replace(request.common, reply=self._replies.address))
        run = partial(self._run, answers, asked) if rdd is None else partial(self._count, rdd, asked)
        try:
            return self._replies.first(asked.common, len(asked.parts), lambda: self._start(run))
        except NoReply as error:
            self._counts = False
            raise HostLost(f"HostLost: {error}") from error

    def end_job(self) -> None:
        if self._job is not None:
            wait([self._job])
            self._job = None

    def _start(self, run: Callable[[], Answers | None]) -> Future[Answers | None]:
        self._job = self._thread.submit(run)
        return self._job

    def _count(self, rdd: Any, request: JobRequest) -> Answers | None:
        """Runs the job over an RDD of answers, which the hosts send to the driver themselves."""
        self._describe(request)
        with expecting_errors():
            if rdd.count():
                return None
            _check_kept(request)
        return self._run(self._without_rows(len(request.parts)), request)

    def _run(self, answers: Any, request: JobRequest) -> Answers:
        """Runs the job and returns the answers that it brings."""
        self._describe(request)
        with expecting_errors():
            rows = answers.collect()
            if not rows:
                _check_kept(request)
                # Adaptive execution drops the whole stage behind a shuffle without rows.
                rows = self._without_rows(len(request.parts)).collect()
        found = sorted((EpochAnswer.unpack(bytes(row[0])) for row in rows), key=lambda answer: answer.replica)
        if [answer.replica for answer in found] != list(range(len(request.parts))):
            raise RuntimeError(
                f"the job of epoch {request.common.epoch} has answers of the replicas"
                f" {[answer.replica for answer in found]} instead of {len(request.parts)}"
            )
        return tuple(found)

    def _describe(self, request: JobRequest) -> None:
        """Gives the following job of this thread its group and its request."""
        context = self._spark.sparkContext
        self.last = time.monotonic()
        context.setJobGroup(self._group, f"epoch {request.common.epoch}", interruptOnCancel=True)
        context.setLocalProperty(PROPERTY, request.text())

    def ask(self, request: JobRequest) -> Answers:
        requests = request.all()
        if any(each.host is None or each.host.node != node() for each in requests):
            return self._collect(self._without_rows(len(requests)), request, False)
        # Hosts beside the driver need no job. On a cluster executors start and own them: one that has ended is left to
        # the tasks of a job.
        owned = bool(request.common.owner)
        self._asked = request
        try:
            with ThreadPoolExecutor(len(requests), "headgate-ask") as threads:
                found = threads.map(lambda each: bring(each, "driver", iter(()), start=owned), requests)
                return tuple(map(EpochAnswer.unpack, found))
        except HostLost:
            if owned:
                raise
        finally:
            self._asked = None
        return self._collect(self._without_rows(len(requests)), request, False)

    def cancel(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group)
        asked = self._asked
        if asked is not None:
            close_hosts((each.host for each in asked.all() if each.host is not None), asked.common.token)

    def close(self) -> None:
        self._thread.shutdown(wait=False)
        if self._replies is not None:
            self._replies.close()

    def _without_rows(self, replicas: int) -> Any:
        """A frame of answers to no rows, one for all epochs: Spark plans it once."""
        if replicas not in self._empty:
            numbers = self._spark.range(0, replicas, 1, replicas).where("id < 0")
            self._empty[replicas] = numbers.mapInArrow(carry, ANSWER_DDL)
        return self._empty[replicas]


def batch_rdd(frame: Any) -> Any:
    """The RDD behind the frame that `foreachBatch` gets, a Java object: its rows are planned already, and running a job
    over it plans nothing again. None for any other frame."""
    plan = frame._jdf.queryExecution().logical()
    return plan.rdd() if plan.nodeName() == "LogicalRDD" else None


def _check_kept(request: JobRequest) -> None:
    """HostLost if several tasks have brought rows and none got the answer."""
    if request.common.tasks > 1:
        raise HostLost("HostLost: the host has not kept the rows that the tasks of the epoch brought")
