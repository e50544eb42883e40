"""Runs epochs one after the other: one request to the host, one answer and one atomic commit each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headgate.graph.queries import Query
from headgate.operators.batch import Arrival
from headgate.runtime.dataflow import key_of
from headgate.runtime.limits import Failure
from headgate.spark.checkpoint import Checkpoint, CheckpointError, Commit
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.expression_failures import CatalystColumns
from headgate.spark.host_client import close_host
from headgate.spark.jobs import Jobs
from headgate.spark.lane import LaneBatch
from headgate.spark.messages import EpochAnswer, EpochRequest, ExpressionFailure, HostAddress
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.prefilter import Prefilter
from headgate.spark.spark_errors import may_be_catalyst, spark_errors

_METRICS_EVERY = 0.5
_CLEAN_EVERY = 20
_HOST_PATIENCE = 20.0
"""Seconds that the first epoch waits for a host that is being started."""


class EpochsClosed(RuntimeError):
    """No more epochs are run."""


class CatalystError(RuntimeError):
    """Spark itself failed on a micro-batch, perhaps on the expression of a query: a careful lane finds out."""


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
    restored: bool = False


class Epochs:
    """Runs epochs for an engine. Used by one thread, except for `close`.

    - `run`: the identity of the checkpoint; `token`: the secret that hosts ask for
    - `listen` is called with every epoch after its commit, in order
    - `budget`: seconds that an epoch may wait for the network
    - `owner`: the process that hosts end with; 0: the executor that starts them
    - `host`: a host that is being started; if it takes too long, the task of the first epoch starts one

    `commit` is the last commit, `waiting` the number of rows that waited in queues after it, `host` the address of the
    host that answered last. `preparation_changed`: the lanes should be prepared anew (see `prepare`).
    """

    def __init__(
        self,
        jobs: Jobs,
        checkpoint: Checkpoint,
        run: str,
        token: str,
        listen: Callable[[Epoch], None],
        budget: float | None,
        owner: int = 0,
        host: Future[HostAddress | None] | None = None,
    ) -> None:
        # First: what is the newest commit after it stays so.
        self._generation = checkpoint.next_generation()
        self.commit = checkpoint.newest() or Commit(-1)
        self.waiting = 0
        self.host: HostAddress | None = None
        self._starting = host
        self.preparation_changed = False
        self._jobs = jobs
        self._checkpoint = checkpoint
        self._run = run
        self._token = token
        self._listen = listen
        self._budget = budget
        self._owner = owner
        self._requests = 0
        self._plan: Plan | None = None
        self._plan_name = ""
        self._reported = self._done = 0.0
        self._since_clean = 0
        self._closed = False
        self._failures = EpochFailures(checkpoint.name)
        self._catalyst = CatalystColumns()
        self._prefilter = Prefilter()
        # Queries that Catalyst fails for, until a commit contains their failure.
        self._failing: tuple[ExpressionFailure, ...] = ()
        self._left: tuple[Plan, object, tuple[Query, ...]] | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the next epoch."""
        assert self._plan is not None
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan
        self._plan_name = plan.save(self._checkpoint)

    def prepare(self, packed: Any, packing: Packing, plan: Plan) -> Any:
        """The streaming frame of a lane that is not careful: from packed rows to answers."""
        while True:
            queries = self._running(plan, self._failing)
            rows = self._prefilter.filter(packed, packing, queries)
            try:
                return self._jobs.answers(self._catalyst.complete(rows, packing, queries))
            except spark_errors():
                found = self._catalyst.plan_failures(packed, packing, queries)
                if found is None:
                    raise
                self._failing += tuple(found)

    def conditions(self, packed: Any, packing: Packing, plan: Plan) -> object:
        """What `prepare` adds to the packed rows; a lane is restarted if it changes."""
        queries = self._running(plan, self._failing)
        return (
            self._prefilter.condition(packed, packing, queries),
            self._catalyst.columns(packed, packing, queries),
        )

    def run_batch(self, batch: LaneBatch) -> None:
        """An epoch for a lane's micro-batch, unless it has been committed already.

        CatalystError if Spark fails on it and the lane is not careful.
        """
        lane = batch.lane
        done = self.commit.lanes.get(lane.name, -1)
        if done >= batch.batch:
            return
        if batch.batch > done + 1:
            raise CheckpointError(
                f"checkpoint {self._checkpoint.name}: the rows of batch {done + 1} of lane {lane.name} are in no"
                f" commit, and Spark goes on with batch {batch.batch}; restore the newest file of commits/ from a copy,"
                " or give a new checkpoint folder to start over from the sources"
            )
        self._repeat(lambda: self._batch_epoch(batch))

    def run_backlog(self, *, finish: bool = False) -> None:
        """An epoch without new rows: fetches results of the backlog; with `finish`, every stream ends first."""
        self._repeat(lambda: self._backlog_epoch(finish))

    @property
    def backlog_due(self) -> bool:
        """Whether an epoch without new rows is useful: rows are waiting, or the last epochs reported no metrics."""
        return bool(self.waiting) or self._done > self._reported

    def close(self) -> None:
        """Cancels the running epoch and refuses further ones; may be called from any thread. Spark delivers their rows
        again after a restart."""
        self._closed = True
        self._jobs.cancel()

    def end_host(self) -> None:
        """Ends the host, whatever it does; no epoch follows."""
        if self._starting is not None and self._starting.done():
            with suppress(Exception):
                self._await_host()
        if self.host is not None:
            close_host(self.host, self._token)
            self.host = None

    def failed(self, queries: Iterable[Query]) -> dict[str, Failure]:
        """The queries that have failed up to the last commit; a query whose plan has changed since has not."""
        found: dict[str, Failure] = {}
        known = {query.name: query for query in queries}
        for state in self.commit.failures:
            failure = Failure(**state)
            if failure.query in known and key_of(known[failure.query].plan) == failure.plan:
                found[failure.query] = failure
        return found

    def _repeat(self, attempt: Callable[[], None]) -> None:
        """Repeats an epoch that failed because a host, a worker or an executor was lost."""
        while True:
            if self._closed:
                raise EpochsClosed("the engine is stopping; this batch is read again at the next start")
            try:
                return attempt()
            except (EpochsClosed, CatalystError):
                raise
            except Exception as error:
                if self._closed:
                    raise EpochsClosed("the engine was stopped while an epoch ran") from error
                final = self._failures.final(error)
                if final is not None:
                    raise final from error

    def _backlog_epoch(self, finish: bool) -> None:
        request = self._request(None, time.time(), finish)
        began = time.perf_counter()
        self._commit(self._jobs.ask(request), request, None, began)

    def _batch_epoch(self, batch: LaneBatch) -> None:
        request = self._request(batch.lane.key, batch.arrived, False)
        began = time.perf_counter()
        if batch.lane.careful:
            answer = self._careful(batch, request)
        else:
            try:
                answer = self._jobs.collect(batch.frame, request)
            except Exception as error:
                if may_be_catalyst(error) and not self._failures.transient(error):
                    raise CatalystError(str(error)) from error
                raise
        self._commit(answer, request, batch, began)

    def _careful(self, batch: LaneBatch, request: EpochRequest) -> EpochAnswer:
        """The job over packed rows. If Catalyst raises, the queries that use the expression fail, and the job is
        repeated for all others. Each repetition knows another raising expression, so the loop ends."""
        packing = self.plan.packings[batch.lane.key]
        while True:
            queries = self._running(self.plan, self._failing)
            rows = self._prefilter.filter(batch.frame, packing, queries)
            try:
                return self._jobs.collect(self._jobs.answers(self._catalyst.complete(rows, packing, queries)), request)
            except Exception as error:
                if not may_be_catalyst(error) or self._failures.transient(error):
                    raise
                if self._prefilter.raised(batch.frame, packing):
                    continue
                found = self._catalyst.find_failures(batch.frame, packing, queries)
                if found is None:
                    raise
                self._failing += tuple(found)
                request = self._request(batch.lane.key, batch.arrived, False)

    def _await_host(self) -> None:
        """Before the first epoch: another host is not needed."""
        starting, self._starting = self._starting, None
        if starting is not None:
            with suppress(TimeoutError):
                self.host = starting.result(_HOST_PATIENCE)

    def _request(self, packing: str | None, arrived: float, finish: bool) -> EpochRequest:
        self._await_host()
        self._requests += 1
        return EpochRequest(
            run=self._run,
            token=self._token,
            fence=(self._generation, self._requests),
            checkpoint=self._checkpoint.absolute_uri,
            epoch=self.commit.epoch + 1,
            after=self.commit.epoch,
            attempt=uuid.uuid4().hex[:8],
            plan=self._plan_name,
            packing=packing,
            arrived=arrived,
            budget=None if finish else self._budget,
            finish=finish,
            detailed=finish or time.monotonic() - self._reported >= _METRICS_EVERY,
            host=self.host,
            owner=self._owner,
            expression_failures=self._failing,
            continues=self.commit.snapshots[0].file if self.commit.snapshots else "",
        )

    def _commit(self, answer: EpochAnswer, request: EpochRequest, batch: LaneBatch | None, began: float) -> None:
        answered = time.perf_counter()
        self.host = answer.host
        lanes = dict(self.commit.lanes)
        if batch is not None:
            lanes[batch.lane.name] = batch.batch
        commit = Commit(
            answer.epoch,
            lanes,
            snapshots=(answer.snapshot,),
            files=answer.files,
            results=answer.results,
            newest=answer.newest,
            unwritten=answer.unwritten,
            written=answer.written,
            failures=answer.failures,
            plan=self._plan_name,
            complete=request.finish,
        )
        self._checkpoint.commit(commit)
        self.commit = commit
        self._failing = self._failing[len(request.expression_failures) :]
        self.waiting = answer.waiting
        self.preparation_changed |= self._prefilter.report(answer.selected)
        self._done = time.monotonic()
        if request.detailed:
            self._reported = self._done
        self._listen(
            Epoch(
                commit.epoch,
                commit,
                self.waiting,
                dict(answer.failed),
                {"job": answered - began, "commit": time.perf_counter() - answered, **answer.seconds},
                None if answer.metrics is None else dict(answer.metrics),
                {query: Arrival(int(a[0]), a[1], a[2]) for query, a in answer.arrivals.items()},
                answer.rows,
                answer.malformed,
                answer.inline,
                answer.restored,
            )
        )
        self._since_clean += 1
        if self._since_clean >= _CLEAN_EVERY:
            self._since_clean = 0
            self._checkpoint.clean()

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
