"""Runs epochs one after the other: one Spark job and one atomic commit each."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.graph.queries import Query
from headgate.operators.batch import Arrival
from headgate.runtime.dataflow import key_of
from headgate.runtime.limits import Failure
from headgate.spark.checkpoint import Checkpoint, CheckpointError, Commit
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.expression_failures import CatalystColumns
from headgate.spark.messages import ExpressionFailure, Place, WrittenFile
from headgate.spark.plan import Plan
from headgate.spark.prefilter import Prefilter
from headgate.spark.spark_errors import expecting_errors, may_be_catalyst
from headgate.spark.task import ANSWER_DDL, Task
from headgate.spark.worker import work

_METRICS_EVERY = 0.5
_CLEAN_EVERY = 20


class EpochsClosed(RuntimeError):
    """No more epochs are run."""


@dataclass(frozen=True)
class Epoch:
    """The outcome of one epoch."""

    number: int
    commit: Commit
    waiting: int
    failed: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Any] | None = None
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    """Arrival times of the rows behind each query's results."""
    rows: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    inline: Mapping[str, bytes] = field(default_factory=dict)
    """These and the commit's parts: see `headgate.spark.delivery.Delivered`."""


class Epochs:
    """Runs epochs for an engine. Its methods may be called from any thread; epochs never overlap.

    The first waits for the thread `warm` to end. `listen` is called with every epoch after its commit, in order, on
    the thread that ran it.
    """

    def __init__(
        self,
        spark: Any,
        checkpoint: Checkpoint,
        run: str,
        plan: Callable[[], Plan],
        listen: Callable[[Epoch], None],
        budget: float | None,
        warm: threading.Thread | None = None,
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._run = run
        self._plan = plan
        self._listen = listen
        self._budget = budget
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        # Lanes that have rows take precedence over epochs without new rows.
        self._lanes_ready = 0
        self._ready_lock = threading.Lock()
        self._saved: tuple[Plan, str] | None = None
        self._reported = self._done = 0.0
        self._since_clean = 0
        self._closed = False
        self._warm = warm
        self._failures = EpochFailures(checkpoint.uri)
        self._catalyst = CatalystColumns()
        self._prefilter = Prefilter()
        self._left: tuple[Plan, object, tuple[Query, ...]] | None = None
        newest = checkpoint.newest()
        self.commit = newest or Commit(-1)
        self.waiting = 0

    def run_batch(self, lane: str, packing: str, batch: int, frame: Any) -> None:
        """An epoch for a lane's micro-batch, unless it has been committed already."""
        arrived = time.time()
        with self._ready_lock:
            self._lanes_ready += 1
        with self._lock:
            with self._ready_lock:
                self._lanes_ready -= 1
            self._free.notify_all()
            done = self.commit.lanes.get(lane, -1)
            if done >= batch:
                return
            if batch > done + 1:
                raise CheckpointError(
                    f"checkpoint {self._checkpoint.uri}: the rows of batch {done + 1} of lane {lane} are in no commit,"
                    f" and Spark goes on with batch {batch}; restore the newest file of commits/ from a copy, or give a"
                    " new checkpoint folder to start over from the sources"
                )
            self._run_epoch(frame, (lane, packing, batch), arrived, False)

    def close(self) -> None:
        """Waits for the running epoch; later ones are refused, and Spark delivers their rows again after a restart."""
        with self._lock:
            self._closed = True

    def run_backlog(self, *, finish: bool = False) -> bool:
        """An epoch without new rows: processes the backlog; with `finish`, every stream ends first.

        An epoch that fails because a worker or an executor was lost is repeated; a lane repeats its own by a restart.
        It also runs if the last epochs reported no metrics and no rows have arrived since. False if there was nothing
        to do.
        """
        with self._lock:
            while self._lanes_ready:
                self._free.wait()
            if not finish and not self.waiting and not self._metrics_due():
                return False
            while True:
                try:
                    self._run_epoch(None, None, time.time(), finish)
                    return True
                except EpochsClosed:
                    raise
                except Exception as error:
                    final = self._failures.final(error)
                    if final is not None:
                        raise final from error

    def _run_epoch(self, frame: Any, of: tuple[str, str, int] | None, arrived: float, finish: bool) -> None:
        if self._closed:
            raise EpochsClosed("the engine is stopping; this batch is read again at the next start")
        plan, name = self._planned()
        number = self.commit.epoch + 1
        packing = None if of is None else of[1]
        detailed = finish or time.monotonic() - self._reported >= _METRICS_EVERY
        task = Task(
            run=self._run,
            checkpoint=self._checkpoint.uri,
            epoch=number,
            attempt=uuid.uuid4().hex[:8],
            after=self.commit.epoch,
            plan=name,
            packing=packing,
            arrived=arrived,
            budget=None if finish else self._budget,
            finish=finish,
            detailed=detailed,
        )
        if self._warm is not None:
            self._warm.join()
            self._warm = None
        began = time.perf_counter()
        answer = _job(self._spark.range(1), task) if packing is None else self._over(frame, packing, plan, task)
        job = time.perf_counter() - began
        state: dict[str, Any] = {}
        report: dict[str, Any] = {}
        metrics: dict[str, Any] | None = None
        inline: dict[str, bytes] = {}
        for kind, about, data in answer:
            if kind == "result":
                inline[about] = bytes(data)
            elif kind == "state":
                state = json.loads(data)
            elif kind == "report":
                report = json.loads(data)
            elif kind == "metrics":
                metrics = json.loads(data)
        lanes = dict(self.commit.lanes)
        if of is not None:
            lanes[of[0]] = of[2]
        commit = Commit(
            number,
            lanes,
            snapshots=(Place(**state["snapshot"]),),
            files=tuple(state["files"]),
            results=_places(state["results"]),
            newest=_places(state["newest"]),
            unwritten=_places(state["unwritten"]),
            written=tuple(WrittenFile(**each) for each in state["written"]),
            failures=tuple(state["failures"]),
            plan=name,
            complete=finish,
        )
        self._checkpoint.commit(commit)
        self.commit = commit
        self._prefilter.report(report["selected"])
        self.waiting = report["waiting"]
        self._done = time.monotonic()
        if detailed:
            self._reported = self._done
        seconds = {"job": job, "commit": time.perf_counter() - began - job, **report["seconds"]}
        arrivals = {query: Arrival(int(a[0]), a[1], a[2]) for query, a in state["arrivals"].items()}
        counted = (state["rows"], state["malformed"], inline)
        self._listen(Epoch(number, commit, self.waiting, report["failed"], seconds, metrics, arrivals, *counted))
        self._since_clean += 1
        if self._since_clean >= _CLEAN_EVERY:
            self._since_clean = 0
            self._checkpoint.clean()

    def _metrics_due(self) -> bool:
        return self._done > self._reported and time.monotonic() - self._done >= _METRICS_EVERY

    def _over(self, frame: Any, packing: str, plan: Plan, task: Task) -> list[Any]:
        """The job over a micro-batch. If Catalyst raises, the queries that use the expression fail, and the job is
        repeated for all others. Each repetition knows another raising expression, so the loop ends."""
        layout = plan.packings[packing]
        while True:
            queries = self._running(plan, task.expression_failures)
            rows = self._prefilter.filter(frame, layout, queries)
            try:
                return _job(self._catalyst.complete(rows, layout, queries), task)
            except Exception as error:
                if not may_be_catalyst(error):
                    raise
                if self._prefilter.raised(frame, layout):
                    continue
                found = self._catalyst.find_failures(frame, layout, queries)
                if found is None:
                    raise
                task = replace(
                    task, attempt=uuid.uuid4().hex[:8], expression_failures=(*task.expression_failures, *found)
                )

    def failed(self, queries: Iterable[Query]) -> dict[str, Failure]:
        """The queries that have failed up to the last commit; a query whose plan has changed since has not."""
        found: dict[str, Failure] = {}
        known = {query.name: query for query in queries}
        for state in self.commit.failures:
            failure = Failure(**state)
            if failure.query in known and key_of(known[failure.query].plan) == failure.plan:
                found[failure.query] = failure
        return found

    def _running(self, plan: Plan, expression_failures: tuple[ExpressionFailure, ...]) -> tuple[Query, ...]:
        """The queries that have not failed; the same tuple as long as these do not change."""
        failed = self.failed(plan.queries)
        gone = {failure.query for failure in expression_failures}
        if not failed and not gone:
            return plan.queries
        key = (tuple(failed), gone)
        if self._left is None or self._left[0] is not plan or self._left[1] != key:
            left = [q for q in plan.queries if q.name not in gone and q.name not in failed]
            self._left = (plan, key, tuple(left))
        return self._left[2]

    def _planned(self) -> tuple[Plan, str]:
        """The plan of the next epoch, saved where the workers find it."""
        plan = self._plan()
        if self._saved is None or self._saved[0] is not plan:
            self._saved = (plan, plan.save(self._checkpoint))
        return self._saved


def _places(found: list[Any]) -> tuple[tuple[str, Place], ...]:
    return tuple((query, Place(**place)) for query, place in found)


def _job(frame: Any, task: Task) -> list[Any]:
    with expecting_errors():
        rows: list[Any] = frame.coalesce(1).mapInArrow(work(task), ANSWER_DDL).collect()
    return rows
