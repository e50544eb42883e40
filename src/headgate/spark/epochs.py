"""Runs epochs one after the other: one request to the hosts, one answer per replica and one atomic commit."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headgate.graph.queries import Query
from headgate.operators.batch import FOREVER, Arrival
from headgate.runtime.dataflow import plan_key
from headgate.runtime.limits import Failure
from headgate.spark.answers import CombinedAnswer, combined
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import Commit
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.epoch_frames import EpochFrames
from headgate.spark.host_client import close_hosts
from headgate.spark.idle_streams import IdleStreams
from headgate.spark.jobs import Answers, Jobs
from headgate.spark.lane import LaneBatch
from headgate.spark.messages import EpochRequest, ExpressionFailure, HostAddress, JobRequest, ReplicaPart
from headgate.spark.moving import moved, must_move
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.spark_errors import may_be_catalyst
from headgate.spark.turns import streams_of

_METRICS_EVERY = 0.5
_CLEAN_EVERY = 20
_HOST_PATIENCE = 20.0
"""Seconds that the first epoch waits for a host that is being started."""


class EpochsClosed(RuntimeError):
    """No more epochs are run."""


class CatalystError(RuntimeError):
    """Spark failed on a micro-batch, perhaps on an expression of a query; a careful lane finds out which."""


@dataclass(frozen=True)
class Epoch:
    """The outcome of one epoch."""

    number: int
    commit: Commit
    waiting: int
    failed: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Any] | None = None
    key_rows: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """With metrics: see `EpochAnswer.key_rows`; of all replicas."""
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    """Arrival times of the rows behind each query's results."""
    rows: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    inline: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """These and the commit's parts: see `headgate.spark.delivery.Delivered`."""
    restored: bool = False
    answered: tuple[str, ...] = ()
    """Queries that answer once and did so in this epoch."""
    taken: int = 0
    waited: Mapping[str, float] = field(default_factory=dict)
    """New rows; and for each query with results, how long (s) the newest rows of its streams may have waited for Spark
    to find them."""


class Epochs:
    """Runs epochs for an engine. Used by one thread, except for `close`.

    - `run`: the identity of the checkpoint; `token`: the secret that hosts ask for
    - `listen` is called with every epoch after its commit, in order
    - `budget`: seconds that an epoch may wait for the network; may be set while running
    - `owner`: the process that hosts end with; 0: the executor that starts them
    - `clock`: seconds; decides when a stream is idle
    - `hosts`: the hosts that are being started, one per replica; the tasks of the first epoch start those that are not
      ready in time. `beside`: how many hosts of so many replicas share a node, where their addresses are not known

    `commit` is the last commit, `waiting` the number of rows that waited in queues after it, `hosts` the addresses of
    the hosts that answered last. `preparation_changed`: the lanes should be prepared again (see `prepare`).
    `follow_up`: an epoch without new rows should follow at once, because the hosts do not know the newest watermarks
    yet; `change_pending`: because no commit names the changed plan yet.
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
        hosts: Future[list[HostAddress | None]] | None = None,
        beside: Callable[[int], int] = lambda replicas: replicas,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Comes first: after it, the newest commit is final.
        self._generation = checkpoint.next_generation()
        self.commit = checkpoint.newest() or Commit(-1)
        self.waiting = 0
        self.hosts: list[HostAddress | None] = []
        self._starting = hosts
        self.follow_up = False
        self.change_pending = False
        self.preparation_changed = False
        self._jobs = jobs
        self._checkpoint = checkpoint
        self._run = run
        self._token = token
        self._listen = listen
        self.budget = budget
        self._owner = owner
        self._beside = beside
        self._requests = 0
        self._plan: Plan | None = None
        self._plan_name = ""
        self._reported = self._done = 0.0
        self._since_clean = 0
        self._closed = False
        self._failures = EpochFailures(checkpoint.name)
        self._frames = EpochFrames(jobs, self.failed)
        # Queries that failed on some replica, until all replicas know it.
        self._elsewhere: tuple[ExpressionFailure, ...] = ()
        # How long the rows of the last batch of each stream may have waited, and the streams of each query.
        self._waited: dict[str, float] = {}
        self._streams_read: dict[str, list[str]] = {}
        self._idle = IdleStreams(clock)
        self._withheld: tuple[str, ...] = ()

    @property
    def plan(self) -> Plan:
        """The plan of the next epoch."""
        assert self._plan is not None
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        old, name = self._plan, self._plan_name
        if old is None:
            old = self.known_plan(plan.replicas)
        # Where every stream has ended, nothing continues with the state.
        if old is not None and self.commit.replicas and not self.commit.complete and must_move(old, plan):
            self._move(old, plan)
        self._plan = plan
        self._plan_name = plan.save(self._checkpoint)
        self.change_pending = bool(name) and (self.change_pending or name != self._plan_name)
        self._streams_read = {query.name: streams_of(query) for query in plan.queries}
        self._idle.plan(plan.idle, plan.queries)

    def known_plan(self, replicas: int) -> Plan | None:
        """The plan of the last epoch; after a restart, that of the last commit. None if there was no epoch, or if after
        a restart both that plan and the next one (`replicas`) have one replica."""
        if self._plan is None and self.commit.replicas and replicas + self.commit.replicas > 2:
            return self._committed_plan(replicas)
        return self._plan

    def prepare(self, packed: Any, packing: Packing, plan: Plan) -> Any:
        """See `EpochFrames.prepare`."""
        return self._frames.prepare(packed, packing, plan)

    def conditions(self, packed: Any, packing: Packing, plan: Plan) -> object:
        """See `EpochFrames.conditions`."""
        return self._frames.conditions(packed, packing, plan)

    def run_batch(self, batch: LaneBatch) -> None:
        """Runs an epoch for a lane's micro-batch, unless it has been committed already.

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
        """Runs an epoch without new rows to fetch results of the backlog; with `finish`, every stream ends first."""
        self._repeat(lambda: self._backlog_epoch(finish))
        while finish and not self.commit.complete:
            # Rows that fragments have sent arrive with the next epoch.
            self._repeat(lambda: self._backlog_epoch(finish))

    @property
    def backlog_due(self) -> bool:
        """Whether an epoch without new rows is useful: rows are waiting, the plan has changed, or the last epochs
        reported no metrics."""
        return self.follow_up or self.change_pending or bool(self.waiting) or self._done > self._reported

    @property
    def idle_wait(self) -> float | None:
        """Seconds until an epoch without new rows should move the watermarks of idle streams; None: never."""
        return self._idle.wait

    def close(self) -> None:
        """Cancels the running epoch and refuses further ones; may be called from any thread. Spark delivers their rows
        again after a restart."""
        self._closed = True
        self._jobs.cancel()

    def end_hosts(self) -> None:
        """Ends the hosts, even if they are busy; no epoch follows."""
        self._jobs.close()
        if self._starting is not None and self._starting.done():
            with suppress(Exception):
                self._await_hosts()
        hosts, self.hosts = self.hosts, []
        self._end(hosts)

    def failed(self, queries: Iterable[Query]) -> dict[str, Failure]:
        """The queries that have failed up to the last commit, except those whose plan has changed since."""
        found: dict[str, Failure] = {}
        known = {query.name: query for query in queries}
        for state in self.commit.failures:
            failure = Failure(**state)
            if failure.query in known and plan_key(known[failure.query]) == failure.plan:
                found[failure.query] = failure
        return found

    def _committed_plan(self, replicas: int) -> Plan:
        if not self.commit.plan:
            raise CheckpointError(
                f"checkpoint {self._checkpoint.uri}: it was written by an early version of Headgate; run it once with"
                f" one replica before you give it {replicas}"
            )
        return Plan.load(self._checkpoint, self.commit.plan)

    def _move(self, old: Plan, new: Plan) -> None:
        """Moves all state to the replicas of another plan: runs epochs under the old plan until no rows wait, then one
        that only names the new snapshots.

        Rows that wait for paused queries are processed, too, but their results wait until they are resumed. The rows of
        queries that drop them, and of paused queries that the new plan does not have, are dropped. If it fails, the old
        plan stays.
        """
        kept = {query.name for query in new.queries}
        moving = old.without(old.paused - kept)
        self._withheld = tuple(sorted(old.paused | new.paused))
        try:
            if new.dropping:
                self._drain(moving.resumed(new.dropping))
            # Only watermarks wait for those queries now.
            self._drain(moving.resumed())
            self._divide(old, new)
        except Exception:
            before, self._plan, self._plan_name = self._plan_name, old, old.save(self._checkpoint)
            self.change_pending |= self._plan_name != before
            raise
        finally:
            self._withheld = ()

    def _drain(self, plan: Plan) -> None:
        """Runs epochs under a plan until no rows wait, except for paused queries."""
        self._plan, self._plan_name = plan, plan.save(self._checkpoint)
        while True:
            self._repeat(lambda: self._backlog_epoch(finish=False, drain=True))
            if not self.follow_up and not self.waiting:
                break

    def _divide(self, old: Plan, new: Plan) -> None:
        """An epoch that only names new snapshots: the state of drained replicas, divided for another plan."""
        began = time.perf_counter()
        snapshots, files, event_times = moved(self._checkpoint, self.commit, old, new, uuid.uuid4().hex[:8])
        running = {query.name for query in new.run_queries}
        commit = Commit(
            self.commit.epoch + 1,
            self.commit.lanes,
            snapshots=snapshots,
            files=files,
            failures=self.commit.failures,
            plan=new.save(self._checkpoint),
            event_times=event_times,
            reached={name: time for name, time in self.commit.reached.items() if name in running},
            ended=self._ended(new, ()),
        )
        self._checkpoint.commit(commit)
        self.commit = commit
        gone, self.hosts = self.hosts[new.replicas :], self.hosts[: new.replicas]
        self._end(gone)
        self._listen(Epoch(commit.epoch, commit, 0, {}, {"move": time.perf_counter() - began}))

    def _end(self, hosts: Iterable[HostAddress | None]) -> None:
        close_hosts((host for host in hosts if host is not None), self._token)

    def _repeat(self, attempt: Callable[[], None]) -> None:
        """Retries an epoch that failed because a host, a worker or an executor was lost."""
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

    def _backlog_epoch(self, finish: bool, drain: bool = False) -> None:
        budget = self.budget
        if finish or drain:
            budget = None
        elif self.waiting and not self.follow_up:
            # The hosts process the backlog between epochs. An epoch that waits for them would delay new rows.
            budget = 0.0
        request = self._request(None, time.time(), budget, finish)
        began = time.perf_counter()
        self._commit(self._jobs.ask(request), request.common, None, began)
        self._jobs.end_job()

    def _batch_epoch(self, batch: LaneBatch) -> None:
        request = self._request(batch.lane.key, batch.arrived, self.budget)
        began = time.perf_counter()

        def collect(frame: Any) -> Answers:
            nonlocal request
            if request.common.expression_failures != self._frames.failing:
                request = self._request(batch.lane.key, batch.arrived, self.budget)
            return self._jobs.collect(frame, request)

        if batch.lane.careful:
            packing = self.plan.packings[batch.lane.key]
            answers = self._frames.careful(batch.frame, packing, self.plan, collect, self._is_catalyst)
        else:
            try:
                answers = collect(batch.frame)
            except Exception as error:
                if self._is_catalyst(error):
                    raise CatalystError(str(error)) from error
                raise
        self._commit(answers, request.common, batch, began)
        self._jobs.end_job()

    def _is_catalyst(self, error: Exception) -> bool:
        """Whether an expression of a query may have caused the error, rather than a lost host or executor."""
        return may_be_catalyst(error) and not self._failures.transient(error)

    def _await_hosts(self) -> None:
        """Before the first epoch: waits for the hosts that are being started, so that no others are started."""
        starting, self._starting = self._starting, None
        if starting is not None:
            with suppress(TimeoutError):
                self.hosts = starting.result(_HOST_PATIENCE)

    def _hosts_on_a_node(self, replicas: int) -> int:
        """How many hosts share a node."""
        known = Counter(host.node for host in self.hosts if host is not None)
        if known.total() < replicas:
            return max(1, self._beside(replicas))
        return max(known.values())

    def _request(self, packing: str | None, arrived: float, budget: float | None, finish: bool = False) -> JobRequest:
        self._await_hosts()
        self._requests += 1
        replicas = self.plan.replicas
        common = EpochRequest(
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
            budget=budget,
            finish=finish,
            detailed=finish or time.monotonic() - self._reported >= _METRICS_EVERY,
            owner=self._owner,
            expression_failures=self._frames.failing,
            hosts=self._hosts_on_a_node(replicas),
            event_times=self.commit.event_times if replicas > 1 else None,
            failed_elsewhere=self._elsewhere,
            exchange=self.commit.exchange,
            reached=self.commit.reached,
            idle=self._idle.watermarks(self.commit.event_times),
            withheld=self._withheld,
        )
        hosts = [*self.hosts, *(None for _ in range(replicas))]
        files = [place.file for place in self.commit.snapshots] or [""] * replicas
        parts = (ReplicaPart(host, file) for host, file in zip(hosts[:replicas], files, strict=True))
        return JobRequest(common, tuple(parts))

    def _commit(self, answers: Answers, request: EpochRequest, batch: LaneBatch | None, began: float) -> None:
        answered = time.perf_counter()
        answer = combined(answers)
        self.hosts = list(answer.hosts)
        lanes = dict(self.commit.lanes)
        if batch is not None:
            lanes[batch.lane.name] = batch.batch
            self._waited |= dict.fromkeys(self.plan.packings[batch.lane.key].streams, batch.waited)
        # Results may come with an epoch of another lane, which has waited for its own rows.
        waited = {
            query: max((self._waited.get(stream, 0.0) for stream in self._streams_read.get(query, ())), default=0.0)
            for query in answer.arrivals
        }
        before = self.commit.event_times
        event_times = {**before, **{s: max(t, before.get(s, t)) for s, t in answer.event_times.items()}}
        commit = Commit(
            answer.epoch,
            lanes,
            snapshots=answer.snapshots,
            files=answer.files,
            results=answer.results,
            newest=answer.newest,
            unwritten=answer.unwritten,
            written=answer.written,
            failures=answer.failures,
            plan=self._plan_name,
            complete=request.finish and _settled(answer, request),
            event_times=event_times,
            exchange=answer.exchange,
            reached=answer.reached,
            ended=self._ended(self.plan, answer.answered),
        )
        self._checkpoint.commit(commit)
        self.commit = commit
        self.change_pending = False
        if answer.answered:
            self.plan = self.plan.without(answer.answered)
        seconds = {"job": answered - began, "commit": time.perf_counter() - answered}
        self._committed(answer, request, seconds, waited)
        self._idle.arrived(answer.arrived)
        rose = (request.event_times is not None and event_times != before) or self._idle.behind(event_times)
        self.follow_up = rose or bool(answer.exchange) or answer.reached != request.reached

    def _ended(self, plan: Plan, answered: tuple[str, ...]) -> tuple[str, ...]:
        """The queries that have ended with their first answer, now or before, and were not declared again since."""
        running = {query.name for query in plan.queries}
        return (*(name for name in self.commit.ended if name not in running), *answered)

    def _committed(
        self,
        answer: CombinedAnswer,
        request: EpochRequest,
        seconds: Mapping[str, float],
        waited: Mapping[str, float],
    ) -> None:
        """After a commit: notes what the next epoch needs, and reports the epoch."""
        self._failures.succeeded()
        self.preparation_changed |= self._frames.committed(len(request.expression_failures), answer.selected)
        self._elsewhere = answer.unknown
        self.waiting = answer.waiting
        self._done = time.monotonic()
        if request.detailed:
            self._reported = self._done
        self._listen(
            Epoch(
                self.commit.epoch,
                self.commit,
                self.waiting,
                dict(answer.failed),
                {**seconds, **answer.seconds},
                None if answer.metrics is None else dict(answer.metrics),
                answer.key_rows,
                {query: Arrival(*each) for query, each in answer.arrivals.items()},
                answer.rows,
                answer.malformed,
                answer.inline,
                answer.restored,
                answer.answered,
                answer.taken,
                waited,
            )
        )
        self._since_clean += 1
        if self._since_clean >= _CLEAN_EVERY:
            self._since_clean = 0
            self._checkpoint.clean()


def _settled(answer: CombinedAnswer, request: EpochRequest) -> bool:
    """Whether nothing is in transit between fragments: all have ended, and their readers know it."""
    return (
        not answer.exchange
        and answer.reached == request.reached
        and all(t == FOREVER for t in request.reached.values())
    )
