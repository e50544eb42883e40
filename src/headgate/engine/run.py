"""One run of an engine: the parts that exist from its start to its stop, and the plan that they follow."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from headgate.connectors.kafka_dead_letters import DeadLetterTopics
from headgate.connectors.registry import RegisteredSinks, SparkStreams, dead_letters
from headgate.control.lifecycle import LifecycleTimer, next_change, taken_over
from headgate.control.setting import Setting
from headgate.engine.declarations import Declarations
from headgate.engine.live_tuning import LiveTuning
from headgate.engine.metrics import EngineMetrics
from headgate.engine.options import EngineOptions
from headgate.engine.query_sinks import QuerySinks
from headgate.engine.static_tables import StaticTables
from headgate.runtime.limits import Limits
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.delivery import Delivery
from headgate.spark.driver import Driver, EngineStopping
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.executor_start import start_hosts
from headgate.spark.host_client import close_when_started, ensure_hosts, host_folder
from headgate.spark.host_spread import HostSpread
from headgate.spark.jobs import SparkJobs
from headgate.spark.lane_log import open_lane_log
from headgate.spark.lanes import Lanes
from headgate.spark.lazy_session import LazySession
from headgate.spark.messages import HostAddress
from headgate.spark.pace import Pace
from headgate.spark.placement import Placement
from headgate.spark.plan import Plan
from headgate.spark.processes import node
from headgate.spark.processor_use import ProcessorUse, engine_processes
from headgate.spark.publisher import Publisher
from headgate.spark.rebalancing import Rebalancing
from headgate.spark.replicas import default_replicas, hosts_on_a_node, parts_of, placed
from headgate.spark.replies import Replies
from headgate.spark.resumption import Resumption
from headgate.spark.shipping import ship_package, user_modules
from headgate.spark.warmup import KeptWorkers, warm_up

CLOSE_TIMEOUT = 2.5
"""Seconds that sinks have, when the engine stops, to write committed results; the next start publishes the rest."""

_SINKS = f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}"
"""The opener of sinks on hosts (see `Delivery`)."""


class EngineRun:
    """Runs what is declared, from its creation until `close`. Methods are called under the engine's lock, except those
    that wait (`start`, `run_once`, `interrupt`, `close`).

    - `declared`, `session`, `sinks`, `metrics`: those of the engine, which outlive the run
    - `lock`: the engine's lock; `ended`: set when the run ends by itself
    - `resumption`: what the run took over from the checkpoint; None if that is new
    - `tuning`: the setting of the run and the optimizer that changes it
    - `running`: False once the run is closed
    - `hurried`: whether it was interrupted
    """

    def __init__(
        self,
        options: EngineOptions,
        declared: Declarations,
        session: LazySession,
        sinks: QuerySinks,
        metrics: EngineMetrics,
        lock: threading.RLock,
        ended: threading.Event,
    ) -> None:
        self._options = options
        self._declared = declared
        self._session = session
        self._sinks = sinks
        self._metrics = metrics
        self._lock = lock
        self._ended = ended
        self._close_timeout: float | None = CLOSE_TIMEOUT
        self._closing = False
        self._close_lock = threading.RLock()
        self.hurried = False
        self.running = True
        with ExitStack() as undo:
            try:
                self._open(undo)
            except BaseException:
                self._closing = True
                raise
            self._undo = undo.pop_all()

    # Opening: `undo` closes the parts in reverse order --------------------------------------------------------

    def _open(self, undo: ExitStack) -> None:
        options, declared, catalog = self._options, self._declared, self._declared.catalog
        # Checked before Spark starts, which takes seconds.
        checkpoint = Checkpoint(options.folder)
        checkpoint.probe()
        run, token = checkpoint.identity(), secrets.token_hex(16)
        hosts = self._start_hosts(run, token, undo)
        spark = self._session.spark
        spark.conf.set("spark.sql.session.timeZone", catalog.time_zone)
        self._tables = StaticTables(spark, self._table_changed)
        undo.callback(self._tables.close)
        self._tables.load(catalog.tables)
        local = self._session.local
        jobs = SparkJobs(spark, f"headgate-{run}", Replies(host_folder(), token) if local else None)
        epochs = self.epochs = Epochs(
            jobs,
            checkpoint,
            run,
            token,
            self._committed,
            options.budget,
            self._owner,
            hosts,
            partial(hosts_on_a_node, spark),
        )
        undo.callback(epochs.end_hosts)
        if local:
            undo.callback(KeptWorkers(spark, lambda: jobs.last).close)
        self._publisher = Publisher(
            checkpoint,
            lambda query, sink: self._sinks.open(query, sink, run),
            dead_letters(options.dead_letters, run),
            self._published,
            self._ended.set,
            kept=not options.temporary,
            letters=DeadLetterTopics(spark, lambda: catalog.streams),
        )
        undo.callback(lambda: self._publisher.close(self._close_timeout))
        self._pace = Pace(options.trigger_cores, ProcessorUse(engine_processes(spark, self._host_processes)))
        committed = Plan.load(checkpoint, epochs.commit.plan).queries if epochs.commit.plan else ()
        self.tuning = LiveTuning(
            options, committed, declared, self._metrics, self._pace, lambda: hosts_on_a_node(spark, self.replicas)
        )
        self.resumption = Resumption.of(checkpoint, epochs.commit, declared.queries)
        for query in taken_over(checkpoint, epochs.commit, declared.queries, catalog.classes):
            catalog.put_query(query)
        self._ended.clear()
        self._driver = self._open_driver(spark, checkpoint, run)
        undo.callback(self._driver.stop)
        self._rebalancing = Rebalancing(self._driver, epochs, self._metrics.decisions.add)
        self._spread = None if local else HostSpread(spark, self._driver, epochs, run, token)
        declared.lifecycles.begin()
        self._sinks.begin()
        self._sinks.open_new(declared.queries.values(), self._publisher)
        self._publisher.republish()
        failed = epochs.failed(declared.queries.values())
        self._metrics.begin({name: str(failure) for name, failure in failed.items()})
        self._timer = LifecycleTimer(lambda since: next_change(declared.queries.values(), since), self._keep_time)
        undo.callback(self._timer.close)
        undo.callback(self.tuning.close)
        self.replan()

    def _start_hosts(self, run: str, token: str, undo: ExitStack) -> Future[list[HostAddress | None]]:
        """Starts the hosts, and Spark if it is not running. Hosts load their modules while Spark starts; on a cluster,
        while the lanes are planned."""
        wanted = self._declared.replicas
        background = ThreadPoolExecutor(1, "headgate-start")
        if self._session.local:
            self._owner = os.getpid()
            starting = background.submit(ensure_hosts, run, wanted or 1, token, self._owner)
            undo.callback(close_when_started, starting, token)
            spark = self._session.spark
        else:
            self._owner = 0
            spark = self._session.spark
            ship_package(spark)
            if spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
                # There may be no executors before there are tasks.
                warm_up(spark).join()
        self._default_replicas = wanted or default_replicas(spark)
        if not self._session.local:
            starting = background.submit(start_hosts, spark, run, token, self.replicas)
            undo.callback(close_when_started, starting, token)
        background.shutdown(wait=False)
        return starting

    def _open_driver(self, spark: Any, checkpoint: Checkpoint, run: str) -> Driver:
        options, commit = self._options, self.epochs.commit
        log = open_lane_log(spark, checkpoint, options.lane_log, run)
        if not commit.complete:
            log.check(checkpoint.name, commit.lanes)

        def lanes(driver: Driver) -> Lanes:
            sources, known = SparkStreams(spark), (driver.deliver, driver.ended, driver.refuse)
            return Lanes(sources, checkpoint, log, self._declared.frames, *known, options.every, self._pace)

        return Driver(self.epochs, lanes, checkpoint.name, self._ended.set, self._pace.backlog_pause)

    # Running ------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether every stream in the checkpoint has ended, so that there is nothing to run."""
        return self.resumption is not None and self.resumption.complete

    def start(self) -> None:
        """Starts to read the streams; returns when they are being read."""
        self._driver.start(once=False)
        self.tuning.start(self._apply)

    def run_once(self) -> None:
        """Reads all rows that are available now, ends the streams, and waits until every window is emitted."""
        with suppress(EngineStopping):  # interrupted before it began
            self._driver.start(once=True)
        self._driver.wait()

    def interrupt(self) -> None:
        """Ends `run_once` early, after the running epoch."""
        self.hurried = True
        self._driver.stop()

    def close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Ends everything but Spark; sinks have `timeout` seconds to write committed results, None: no limit. May be
        called again."""
        with self._close_lock:
            self._closing, self._close_timeout = True, timeout
            # First, so that no thread that is ended next waits for the running epoch: a table that is refreshed, the
            # optimizer and the timetable change the plan between two epochs.
            self._driver.request_stop()
            self._publisher.hurry()
            # Before the driver is closed: a refreshed table would change the plan.
            self._tables.close()
            self._undo.close()
            self.running = False

    @property
    def failure(self) -> Exception | None:
        """Why the run ended by itself, or None."""
        return self._publisher.failure or self._driver.failure

    def report(self) -> dict[str, Any]:
        """The metrics that only a run knows."""
        waiting = self.epochs.waiting if self.running else 0
        return {"waiting": waiting, "tables": self._tables.report(), "pace": self._pace.report()}

    # Changes ------------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """The number of copies of the network."""
        return self._declared.replicas or self._default_replicas

    @property
    def placement(self) -> Placement | None:
        """Where queries run now; None if there is one replica."""
        return self.epochs.plan.placement

    def rescale(self) -> None:
        """Called after the declared number of replicas has changed."""
        self.replan()

    def wake(self, changed: bool) -> None:
        """Called when queries may begin or end at other times than before; if `changed`, also now."""
        if changed:
            self._timer.act_now()
        else:
            self._timer.wake()

    def replan(self) -> None:
        """Makes a new plan after a change of declarations, a table, the policy or a setting; the next epoch uses it."""
        if self._closing:
            return
        declared, catalog = self._declared, self._declared.catalog
        self._session.spark.conf.set("spark.sql.session.timeZone", catalog.time_zone)
        self._sinks.open_new(declared.queries.values(), self._publisher)
        self._tables.load(catalog.tables)
        self.tuning.follow_policy()
        current = declared.lifecycles.queries_at(declared.attempted, time.time())
        streams, objectives = dict(catalog.streams), catalog.objectives

        def plan(lanes: Lanes) -> Plan:
            options, setting, replicas = self._options, self.tuning.setting, self.replicas
            running = self.tuning.apply_setting(declared.lifecycles.still_running(current), replicas)
            before, costs = self.epochs.known_plan(replicas), self._rebalancing.costs
            parts = parts_of(running, replicas, before, costs)
            functions = {name for query in running for node in query.plan.walk() for name in node.python_functions}
            failed = self.epochs.failed(running)
            active = [query for query in running if not query.pause and query.name not in failed]
            self._pace.aim = setting.aim
            if options.budget is not None:
                self.epochs.budget = setting.budget
            return Plan(
                running,
                self.tuning.policy,
                mode=options.mode,
                threads=setting.threads if setting.threads > 1 else options.threads,
                tables=self._tables.rows,
                packings=lanes.plan(streams, current.coming, active),
                limits=Limits(memory=options.memory),
                delivery=Delivery(_SINKS, os.getcwd(), options.results, options.dead_letters),
                placement=placed(parts or running, replicas, before, costs),
                parts=parts,
                modules=b"" if self._session.local else user_modules(functions),
                objectives=objectives,
                known=current.known,
                idle={name: stream.idle for name, stream in streams.items() if stream.idle is not None},
            )

        self.tuning.plan_changed(self._driver.replan(plan))

    # On other threads ---------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        """On the timer's thread: queries begin and end."""
        with self._lock:
            if self._closing:
                return
            for query in self._declared.lifecycles.answered_queries(self._declared.queries):
                self._declared.catalog.put_query(query)
            with self._unless_closing():
                self.replan()

    @contextmanager
    def _unless_closing(self) -> Iterator[None]:
        """A change that nobody asked for fails without an error if the engine is being stopped meanwhile."""
        try:
            yield
        except Exception:
            if not self._closing:
                raise

    def _table_changed(self, name: str, rows: pa.Table) -> None:
        """On the thread that reads tables again."""
        with self._lock, self._unless_closing():
            self._tables.put(name, rows)
            self.replan()

    def _apply(self, setting: Setting) -> None:
        """On the optimizer's thread: the next epoch uses another setting."""
        with self._lock, self._unless_closing():
            if self.tuning.take(setting):
                self.replan()

    def _published(self, epoch: int) -> None:
        """On the publisher's thread: an epoch's results can be read."""
        self._pace.published(epoch)
        self._metrics.published(epoch, self._declared.judged)

    def _committed(self, epoch: Epoch) -> None:
        """On the driver's thread: an epoch is committed."""
        self._metrics.committed(epoch)
        if "job" in epoch.seconds:
            seconds = epoch.seconds["job"] + epoch.seconds["commit"]
            self._pace.committed(epoch.number, epoch.taken, seconds, epoch.seconds.get("operators", 0.0))
        self._publisher.put(epoch.commit, epoch.inline)
        if epoch.answered:
            self._declared.lifecycles.answer(epoch.answered)
        if epoch.answered or epoch.failed:
            # A query that has failed sets no pace any more.
            self._timer.act_now()
        if epoch.metrics is not None and self.replicas > 1:
            self._rebalancing.report(epoch.metrics, epoch.key_rows)
        if self._spread is not None:
            self._spread.look()

    def _host_processes(self) -> list[int]:
        """The process ids of the supervisors of hosts on this node."""
        return [host.pid for host in self.epochs.hosts if host is not None and host.node == node()]
