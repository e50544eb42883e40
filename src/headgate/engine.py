"""The engine that users import: declares streams and queries, runs them on Spark, and reports results and metrics."""

from __future__ import annotations

import inspect
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import pyarrow as pa

from headgate.connectors.kafka_dead_letters import DeadLetterTopics
from headgate.connectors.memory import MemorySink, MemoryWriter
from headgate.connectors.registry import (
    RegisteredSinks,
    SparkStreams,
    connectors,
    dead_letters,
    open_sink,
    open_table,
    sinks,
)
from headgate.control.decisions import DecisionHistory
from headgate.control.lifecycle import Lives, Timetable, has_begun, next_change, phases, taken_over
from headgate.control.live_observation import LiveFigures, observed
from headgate.control.observation import Observation
from headgate.control.plans.choices import PlanChoices
from headgate.control.quality import Quality, objective_figures
from headgate.control.query_control import EngineError, QueryControl
from headgate.control.setting import Setting
from headgate.control.tuning import Tuning
from headgate.explanation.explained import Explanation, explain
from headgate.graph.queries import Query, Sink, Stream
from headgate.graph.specs import Spec
from headgate.graph.types import Schema
from headgate.runtime.latency import Latency
from headgate.runtime.limits import Limits
from headgate.runtime.modes import mode_of
from headgate.scheduling import PolicyError, Scheduler, Topology, View, policies
from headgate.scheduling import policy as policy_of
from headgate.scheduling.amos import Auto
from headgate.spark.analysis import Analyzer
from headgate.spark.balance import Balance
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.delivery import Delivery
from headgate.spark.driver import Driver
from headgate.spark.driver_metrics import DriverMetrics
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.executor_start import start_hosts
from headgate.spark.host_client import ensure_hosts, host_folder, prepare_hosts
from headgate.spark.jobs import SparkJobs
from headgate.spark.lane_log import open_lane_log
from headgate.spark.lanes import Lanes
from headgate.spark.messages import HostAddress
from headgate.spark.pace import TRIGGER_CORES, Pace
from headgate.spark.packages import Package, at_start, named_in
from headgate.spark.plan import Plan
from headgate.spark.processes import node
from headgate.spark.processor_use import ProcessorUse, engine_processes
from headgate.spark.publisher import Publisher
from headgate.spark.replicas import default_replicas, hosts_per_node, parts_of, placed
from headgate.spark.replies import Replies
from headgate.spark.results import Results, Writer
from headgate.spark.resumption import Resumption
from headgate.spark.session import session
from headgate.spark.shipping import ship_package, user_modules
from headgate.spark.spark_errors import expecting_errors, reason, spark_errors
from headgate.spark.storage import below, is_local, without_secrets
from headgate.spark.table_refresh import TableRefresh
from headgate.spark.types import to_arrow
from headgate.spark.warmup import warm_up
from headgate.sql import Catalog
from headgate.sql.catalog import Result

_SINKS = f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}"
"""What hosts open folders with (see `Delivery`)."""


_PATIENCE = 2.5
"""Seconds that sinks have, when the engine stops, to take what is committed; the next start publishes the rest."""


def _check(policy: str) -> None:
    """PolicyError if there is no such policy, or if it runs in simulation only."""
    Scheduler(policy_of(policy), View.of(Topology.of({"operator": ["stream"]})))


@cache
def live_policies() -> dict[str, str]:
    """The policies that an engine can run, each with a line about it."""
    found: dict[str, str] = {}
    for name, cls in policies().items():
        with suppress(PolicyError):
            _check(name)
            found[name] = (inspect.getdoc(cls) or "").partition("\n")[0]
    return found


class Engine(QueryControl):
    """Runs continuous queries in one Spark job.

    - `policy`: the policy that schedules the operators (`headgate.scheduling`); may be set while running
    - `checkpoint`: folder (or any URI that `pyarrow.fs` opens) for the state; without one the state is kept in a
      temporary folder and removed with the engine
    - `spark`: a session; without one a session is started on `master`, by default local and tuned for low latency
    - `budget`: seconds that an epoch may spend scheduling; the remaining rows wait for the next epoch
    - `every`: seconds between two polls of the sources; 0: as often as the pace of epochs allows
    - `trigger_cores`: cores that Spark's triggers may take if no query has a latency spec; None: no limit. A trigger
      costs about as much with few rows as with many, so fewer triggers save processor time
    - `mode`, `threads`: how units are spread over threads (see `headgate.runtime`)
    - `memory`: bytes of queued rows on a node above which rows are spilled to files
    - `replicas`: copies of the network, each in a process of its own, among which queries and keys are divided; by
      default one, on a cluster one per core of the executors
    - `results`: newest rows of each query that `results()` keeps, unless the query has INTO memory OPTIONS (rows …)
    - `dead_letters`: folder for malformed rows
    - `lane_log`: folder for Spark's own log of what it has read, which is below the checkpoint by default; needed where
      the checkpoint is in an object store that Spark has no library for

    All methods may be called from any thread.
    """

    def __init__(
        self,
        policy: str = "cqc",
        checkpoint: str | None = None,
        *,
        spark: Any = None,
        master: str | None = None,
        budget: float | None = 1.0,
        every: float = 0.0,
        trigger_cores: float | None = TRIGGER_CORES,
        mode: str = "policy",
        threads: int | None = None,
        memory: int | None = 1 << 30,
        replicas: int | None = None,
        results: int = 10_000,
        dead_letters: str | None = None,
        lane_log: str | None = None,
    ) -> None:
        _check(policy)
        self._policy = policy
        self._temporary = checkpoint is None
        self._folder = checkpoint or tempfile.mkdtemp(prefix="headgate-")
        self._spark = spark
        self._own_session = spark is None
        self._master = master
        if every < 0:
            raise ValueError(f"every is {every}; give the seconds between two polls of the sources, 0 or more")
        if trigger_cores is not None and trigger_cores <= 0:
            raise ValueError(f"trigger_cores is {trigger_cores}; give the cores that triggers may take, or None")
        if replicas is not None and replicas < 1:
            raise ValueError(f"replicas is {replicas}; give the number of copies of the network, 1 or more")
        self._trigger_cores = trigger_cores
        self._pace: Pace | None = None
        self._budget = budget
        self._every = every
        self._mode = mode_of(mode)
        self._threads = threads
        self._spill_limit = memory
        self._wanted_replicas = replicas
        self._replicas = replicas or 1
        self._beside = 1
        self._kept = results
        self._dead_folder = dead_letters
        self._lane_log = lane_log
        zone = "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))
        self._catalog = Catalog(Analyzer(lambda: self.spark).type_of, zone, connectors(), known=self._has_begun)
        self._packages: set[Package] = set()
        self._frames: dict[str, Any] = {}
        self._lives = Lives()
        self._opened: dict[str, Query] = {}
        self._timetable: Timetable | None = None
        self._memory: dict[str, tuple[Query, MemoryWriter]] = {}
        self._attempts: dict[str, int] = {}
        self._listeners: dict[str, list[Callable[[Results], None]]] = {}
        self._lock = threading.RLock()
        self._metrics = DriverMetrics()
        self._quality = Quality()
        self._decisions = DecisionHistory()
        self._usual = Setting(threads=threads or 1, budget=1.0 if budget is None else budget)
        self._setting = self._usual
        self._plans = PlanChoices(self._decisions.add, time.time)
        self._tuning: Tuning | None = None
        self._balance = Balance()
        self._plan: Plan | None = None
        self._tables: dict[str, pa.Table] = {}
        self._refresh: TableRefresh | None = None
        self._epochs: Epochs | None = None
        self._publisher: Publisher | None = None
        self._driver: Driver | None = None
        self._ended = threading.Event()
        self._hurry = False
        self._running_once = False
        self.resumption: Resumption | None = None
        if self._local:
            prepare_hosts(f"{sinks.__module__}:{sinks.__name__}")

    # Declaring --------------------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The Spark session; started when it is first needed."""
        with self._lock:
            if self._spark is None:
                local_files = is_local(self._lane_log or self._folder)
                self._spark = session("headgate", self._master, at_start(self._packages), local_files)
                warm_up(self._spark)
            return self._spark

    @property
    def _local(self) -> bool:
        """Whether Spark runs in this process's JVM, so that hosts are beside this process."""
        master = (self._master or "local") if self._spark is None else str(self._spark.sparkContext.master)
        return master.startswith("local")

    @property
    def catalog(self) -> Catalog:
        """Everything declared so far."""
        return self._catalog

    def execute(self, text: str, file: str = "<text>") -> list[Result]:
        """Executes statements: CREATE CLASS, STREAM, TABLE, FUNCTION, QUERY …; SqlError at the first problem.

        All take effect or none, also if a source or a sink cannot be opened (SourceError, SinkError).
        """
        with self._lock, self._changing() as dropped:
            known = self._catalog.mark().queries
            done = self._catalog.execute(text, file=file)
            self._packages |= named_in(text)
            dropped += [known[each.name].name for each in done if each.done == "dropped" and each.name in known]
            return done

    def stream(self, name: str, frame: Any, idle: str | None = None) -> None:
        """Declares any streaming DataFrame as a stream; `frame.withWatermark(…)` gives its event time. After `idle`
        ('10 seconds') without rows it does not hold back joins and unions any more."""
        if not frame.isStreaming:
            raise EngineError(f"stream {name}: the DataFrame is not streaming; make it with spark.readStream")
        columns = [(part.name, to_arrow(part.dataType)) for part in frame.schema.fields]
        event: int | None = None
        delay = 0
        for place, part in enumerate(frame.schema.fields):
            if "spark.watermarkDelayMs" in part.metadata:
                event, delay = place, int(part.metadata["spark.watermarkDelayMs"]) * 1000
        with self._lock, self._changing():
            self._catalog.add_stream(Stream(name, Schema.of(*columns), event, delay, "dataframe"), idle)
            self._frames[name] = frame

    def query(
        self,
        name: str,
        select: str,
        *,
        cls: str | None = None,
        sink: Sink | Sequence[Sink] = (),
        spec: Spec | Mapping[str, Any] | None = None,
        start: datetime | str | None = None,
        stop: datetime | str | None = None,
        once: bool = False,
    ) -> Query:
        """Declares a query. Its newest rows can always be read with `results`, whatever its sinks are.

        `spec` is what its WITH clause is in SQL: {"latency": "500 ms", "tolerance": "10%"}. It runs from `start` to
        `stop`; with `once` it ends with its first answer.
        """
        sinks = (sink,) if isinstance(sink, Sink) else tuple(sink)
        with self._lock, self._changing():
            return self._catalog.query(name, select, cls, sinks, spec, start, stop, once)

    def drop(self, name: str) -> None:
        """Ends a query, frees its state and forgets it."""
        with self._lock:
            declared = self.declared(name).name
            with self._changing() as dropped:
                self._catalog.drop_query(declared)
                dropped.append(declared)

    def retry(self, name: str) -> None:
        """Runs a query that failed again. It starts without state and sees the rows that arrive from now on."""
        with self._lock:
            query = self.declared(name)
            if self.metrics()["queries"][query.name]["state"] != "failed":
                raise EngineError(f"query {query.name} has not failed: there is nothing to try again")
            self._attempts[query.name] = self._attempts.get(query.name, 0) + 1
            self._changed()
            self._metrics.forget_failure(query.name)

    def check(self, text: str, file: str = "<text>") -> list[Result]:
        """What `execute` would do; SqlError at the first problem. Nothing is declared, and no source or sink opened."""
        with self._lock:
            before = self._catalog.mark()
            try:
                return self._catalog.execute(text, file=file)
            finally:
                self._catalog.back_to(before)

    @property
    def queries(self) -> dict[str, Query]:
        """The queries as declared."""
        return dict(self._catalog.queries)

    def declared(self, name: str) -> Query:
        """A query by its name, in any case; EngineError if there is none."""
        if name not in self._catalog.queries:
            names = ", ".join(sorted(self._catalog.queries)) or "none"
            raise EngineError(f"there is no query {name}; there are: {names}")
        return self._catalog.queries[name]

    @property
    def policy(self) -> str:
        return self._policy

    @policy.setter
    def policy(self, policy: str) -> None:
        _check(policy)
        with self._lock:
            self._policy = policy
            self._changed()

    # Running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts running, or continues where the checkpoint ended. Returns when the streams are being read.

        Queries may be declared later: an engine without any waits for the first.
        """
        driver = self._open()
        if self.resumption is not None and self.resumption.complete:
            self._close()
            raise EngineError(
                f"checkpoint {without_secrets(self._folder)} is complete: every stream in it has ended; give another"
                " checkpoint"
            )
        try:
            driver.start(once=False)
            self._tuning = Tuning(self._usual, self._observe, self._apply, self._decisions)
        except BaseException:
            self._close()
            raise

    def run_once(self) -> None:
        """Reads all rows that are available now, ends the streams, emits every window, and stops."""
        if not self._catalog.queries:
            raise EngineError("there is nothing to run: declare a query first")
        driver = self._open()
        try:
            if self.resumption is None or not self.resumption.complete:
                self._lives.check_all_run(self.queries)
                self._running_once = True
                driver.start(once=True)
                driver.wait()
        finally:
            self._running_once = False
            self._close(_PATIENCE if self._hurry else None)
        self._raise_failure()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the engine stops without `stop`; True if it has, False after `seconds`."""
        if not self._ended.wait(seconds):
            return False
        self._raise_failure()
        return True

    def interrupt(self) -> None:
        """Ends `run_once` early, after the running epoch."""
        driver, self._hurry = self._driver, True
        if driver is not None:
            driver.stop()

    def stop(self) -> None:
        """Finishes the running epoch, publishes its results and leaves a checkpoint to continue from.

        Ends within 10 s: an epoch that takes longer is given up, and its rows are read again at the next start.
        """
        self._close()
        if self._own_session and self._spark is not None:
            # Stopped in the middle of its first job, Spark logs a page of errors.
            warm_up(self._spark).join()
            self._spark.stop()
            self._spark = None

    @property
    def failure(self) -> Exception | None:
        """Why the engine stopped without `stop`, or None."""
        if self._publisher is not None and self._publisher.failure is not None:
            return self._publisher.failure
        return self._driver.failure if self._driver is not None else None

    @property
    def dead_letters(self) -> str:
        """The folder that malformed rows are written to."""
        return self._dead_folder or ("dead-letters" if self._temporary else below(self._folder, "dead-letters"))

    @property
    def replicas(self) -> int:
        """The number of copies of the network."""
        return self._replicas

    def rescale(self, replicas: int) -> None:
        """Changes the number of replicas, also while running: state moves to its new owners, exactly once."""
        if replicas < 1:
            raise ValueError(f"replicas is {replicas}; give the number of copies of the network, 1 or more")
        with self._lock:
            before = self._wanted_replicas, self._replicas, self._beside
            self._wanted_replicas = self._replicas = replicas
            if self._epochs is not None:
                self._beside = hosts_per_node(self.spark, replicas)
            try:
                self._changed()
            except Exception:
                self._wanted_replicas, self._replicas, self._beside = before
                raise

    # Results and metrics ----------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """The newest rows of a query; for a query that updates, the current row of each key.

        If rows of the query are shed, the metadata of the schema has their share (`shed`).
        """
        declared = self.declared(query)
        known = self._memory.get(declared.name)
        found = known[1].table() if known is not None else declared.schema.arrow().empty_table()
        shed = self._metrics.shed(declared.name)
        return found.replace_schema_metadata({"shed": f"{shed:.4f}"}) if shed else found

    def follow(self, query: str, listener: Callable[[Results], None]) -> Callable[[], None]:
        """Calls `listener` with the results of each epoch from now on, of the rows that `results` keeps, until the
        function that is returned is called.

        It is called on the thread that publishes results, which waits for it: it returns at once and never raises.
        """
        with self._lock:
            listeners = self._listeners.setdefault(self.declared(query).name, [])
            listeners.append(listener)

        def end() -> None:
            with self._lock, suppress(ValueError):
                listeners.remove(listener)

        return end

    def metrics(self) -> dict[str, Any]:
        """Figures per query, class, unit and operator.

        `latency` is in seconds, from the arrival of a row until its result can be read at the sinks; rows count as
        arriving evenly between two looks of Spark at their source. `network_latency` is from the start of the
        micro-batch until the worker has made the result. A query's `spec` is None or says what is asked, measured and
        met (`control/compliance.py`); `objectives` has the weight of each metric and its value over the last half
        second or so; `pace` reports the pauses between epochs.
        """
        with self._lock:
            report = self._metrics.report(self.queries, self._catalog.classes, phases(self.queries, self._running))
            waiting = self._epochs.waiting if self._epochs is not None else 0
            specs = self._quality.judge(self._judged_queries(), self._metrics)
            impossible = self._tuning.impossible if self._tuning is not None else {}
            for name, figures in report["queries"].items():
                figures["spec"] = specs.get(name)
                figures["shed_share"] = self._metrics.shed(name)
                figures["plan"] = self._plans.report(name)
                if figures["spec"] is not None and name in impossible:
                    figures["spec"]["best"] = impossible[name]
            objectives = objective_figures(self._catalog.objectives, self._metrics)
            pace = {} if self._pace is None else {"pace": self._pace.report()}
            tables = {} if self._refresh is None else self._refresh.report()
            return {
                **report,
                "policy": self._policy,
                "waiting": waiting,
                "objectives": objectives,
                "decision": self._decisions.last,
                "tables": tables,
                **pace,
            }

    def decisions(self) -> list[dict[str, Any]]:
        """What the engine decided by itself, oldest first, as long as it runs: which policy each class uses, and the
        steps of the run-time optimizer. Each decision has its time (s since 1970), its kind and subject, what was
        `chosen` and what was `before`, the `reason`, the `scores` it was made from, what was `expected` and what `came`
        (`headgate.scheduling.decisions`)."""
        return self._decisions.all()

    def latencies(self) -> dict[str, Latency]:
        """The latencies of each query's results since the start: what `since` an earlier one gives is recent."""
        return self._metrics.latencies()

    def explain(self) -> Explanation:
        """The shared graph of all queries, and its units under the present policy before anything is measured."""
        with self._lock:
            declared = self._catalog.mark()
        return explain(declared, self._policy, self._replicas)

    def forget_latency(self) -> None:
        """Restarts the latency figures, for example to measure the effect of a change."""
        self._metrics.forget_latency()

    # Inside -----------------------------------------------------------------------------------------------

    def _open(self) -> Driver:
        with self._lock:
            if self._epochs is not None:
                raise EngineError("the engine is already running")
            try:
                return self._open_parts()
            except BaseException:
                self._close()
                raise

    def _open_parts(self) -> Driver:
        """Makes the parts of a running engine; `_close` undoes it, also halfway."""
        # Before Spark starts, which takes seconds.
        checkpoint = Checkpoint(self._folder)
        checkpoint.probe()
        run = checkpoint.identity()
        token = secrets.token_hex(16)
        owner = os.getpid() if self._local else 0
        # Hosts load their modules while Spark starts; on a cluster, while the lanes are planned.
        starting: Future[list[HostAddress | None]]
        background = ThreadPoolExecutor(1, "headgate-start")
        if self._local:
            starting = background.submit(ensure_hosts, run, self._wanted_replicas or 1, token, owner)
        spark = self.spark
        if not self._local:
            ship_package(spark)
            if self._wanted_replicas is None:
                # Spark knows its executors once one has run a task.
                warm_up(spark).join()
        self._replicas = self._wanted_replicas or default_replicas(spark)
        self._beside = hosts_per_node(spark, self._replicas)
        if not self._local:
            starting = background.submit(start_hosts, spark, run, token, self._replicas, self._beside)
        spark.conf.set("spark.sql.session.timeZone", self._catalog.time_zone)
        self._tables = {}
        self._refresh = TableRefresh(spark, lambda table: _loaded(spark, table), self._table_changed)
        self._load_tables()
        self._publisher = Publisher(
            checkpoint,
            lambda query, sink: self._open_sink(query, sink, run),
            dead_letters(self.dead_letters, run),
            self._published,
            self._ended.set,
            kept=not self._temporary,
            letters=DeadLetterTopics(spark, lambda: self._catalog.streams),
        )
        jobs = SparkJobs(spark, f"headgate-{run}", Replies(host_folder(), token) if self._local else None)
        epochs = self._epochs = Epochs(
            jobs, checkpoint, run, token, self._committed, self._budget, owner, starting, self._beside
        )
        self._setting = self._usual
        committed = Plan.load(checkpoint, epochs.commit.plan).queries if epochs.commit.plan else ()
        self._plans.resume(committed, self.queries)
        self.resumption = Resumption.of(checkpoint, epochs.commit, self.queries)
        for query in taken_over(checkpoint, epochs.commit, self.queries, self._catalog.classes):
            self._catalog.put_query(query)
        log = open_lane_log(spark, checkpoint, self._lane_log, run)
        if not epochs.commit.complete:
            log.check(checkpoint.name, epochs.commit.lanes)

        def lanes(driver: Driver) -> Lanes:
            sources = SparkStreams(spark)
            known = (driver.deliver, driver.ended, driver.refuse)
            return Lanes(sources, checkpoint, log, self._frames, *known, self._every, pace)

        hosts = self._host_processes
        pace = self._pace = Pace(self._trigger_cores, ProcessorUse(engine_processes(spark, hosts)))
        self._ended.clear()
        self._hurry = False
        driver = self._driver = Driver(epochs, lanes, checkpoint.name, self._ended.set, pace.backlog_pause)
        self._opened.clear()
        self._lives.begin()
        self._open_sinks(self.queries.values())
        self._publisher.republish()
        failed = epochs.failed(self.queries.values())
        self._metrics = DriverMetrics({name: str(f) for name, f in failed.items()}, time.monotonic())
        self._plan = None
        self._balance = Balance()
        self._changed()
        self._timetable = Timetable(lambda: next_change(self.queries.values(), time.time()), self._keep_time)
        return driver

    def _judged_queries(self) -> dict[str, Query]:
        """The queries whose specs count now: those that are neither paused nor over."""
        now = time.time()
        return {name: query for name, query in self.queries.items() if query.phase(now) == "running"}

    @property
    def _running(self) -> bool:
        return self._epochs is not None

    def _has_begun(self, name: str, sql: str) -> bool:
        """Whether the checkpoint knows a query that is being declared, before the engine starts."""
        return not self._temporary and not self._running and has_begun(self._folder, name, sql)

    def _keep_time(self) -> None:
        """On the timetable's thread: queries begin and end."""
        with self._lock:
            if self._running:
                for query in self._lives.answered_queries(self.queries):
                    self._catalog.put_query(query)
                self._changed()

    def _open_sinks(self, queries: Iterable[Query]) -> None:
        """Opens the sinks of queries that are new."""
        assert self._publisher is not None
        for query in queries:
            known = self._opened.get(query.name)
            if known is None or not known.same_results(query):
                memory = any(sink.format == MemorySink.name for sink in query.sinks)
                self._publisher.open(query, () if memory else (Sink(MemorySink.name),))
            self._opened[query.name] = query

    def _open_sink(self, query: Query, sink: Sink, run: str) -> Writer:
        """Opens a sink; the rows in memory outlive a stop and a start."""
        if sink.format != MemorySink.name:
            return open_sink(self.spark, query, sink, run)
        known = self._memory.get(query.name)
        if known is None or not known[0].same_results(query):
            writer = MemorySink().open(self.spark, query, {"rows": str(self._kept), **sink.options}, run)
            known = self._memory[query.name] = (query, writer)
            writer.notify = lambda results: self._notify(query.name, results)
        known[1].follow(run)
        return known[1]

    def _notify(self, query: str, results: Results) -> None:
        for listener in tuple(self._listeners.get(query, ())):
            listener(results)

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """A change of the catalog: the next epoch follows it; if it cannot, the catalog is as before.

        Queries that the change drops are put into the list that it gives: if one is declared again, it is another query
        and starts afresh, even if its text is the same.
        """
        before, frames = self._catalog.mark(), dict(self._frames)
        attempts, memory, opened = dict(self._attempts), dict(self._memory), dict(self._opened)
        dropped: list[str] = []
        try:
            yield dropped
            for name in dropped:
                self._attempts[name] = attempts.get(name, 0) + 1
                self._memory.pop(name, None)
                self._opened.pop(name, None)
            self._changed()
        except Exception:
            self._catalog.back_to(before)
            self._frames, self._attempts, self._memory, self._opened = frames, attempts, memory, opened
            raise
        for name in dropped:
            self._metrics.forget(name)
        self._lives.note(before.queries, self.queries, self._running)
        if self._timetable is not None:
            self._timetable.wake()

    def _load_tables(self) -> None:
        """Reads the tables that were declared since."""
        assert self._refresh is not None
        for name, table in dict(self._catalog.tables).items():
            if name not in self._tables:
                # Before the rows: a file that changes meanwhile is read again.
                files = self._refresh.fingerprint(table)
                self._tables = {**self._tables, name: _loaded(self.spark, table)}
                self._refresh.watch(table, self._tables[name], files)

    def _table_changed(self, name: str, rows: pa.Table) -> None:
        with self._lock:
            self._tables = {**self._tables, name: rows}
            self._changed()

    def _changed(self) -> None:
        """A declaration, a table or the policy changed: the next epoch uses the new plan."""
        if self._driver is None or self._epochs is None:
            return
        now = time.time()
        queries = {name: replace(each, attempt=self._attempts.get(name, 0)) for name, each in self.queries.items()}
        self._open_sinks(self.queries.values())
        self._load_tables()
        if self._plan is not None:
            self.spark.conf.set("spark.sql.session.timeZone", self._catalog.time_zone)
        lineup = self._lives.lineup(queries, now)
        streams = dict(self._catalog.streams)
        objectives = self._catalog.objectives
        epochs, balance = self._epochs, self._balance

        def plan(lanes: Lanes) -> Plan:
            setting = self._setting
            declared = tuple(
                self._plans.planned(
                    [replace(q, shed=setting.shed.get(q.name, 0.0)) for q in self._lives.still_running(lineup)],
                    setting.plans,
                    self._metrics.network,
                    choosing=self._auto and self._replicas == 1,
                )
            )
            before = epochs.known_plan(self._replicas)
            parts = parts_of(declared, self._replicas)
            return Plan(
                declared,
                self._setting.policy_text(self._policy) if self._auto else self._policy,
                mode=self._mode,
                threads=self._setting.threads if self._setting.threads > 1 else self._threads,
                tables=self._tables,
                packings=lanes.plan(streams, lineup.coming),
                limits=Limits(memory=None if self._spill_limit is None else max(1, self._spill_limit // self._beside)),
                delivery=Delivery(_SINKS, os.getcwd(), self._kept, self.dead_letters),
                placement=placed(parts or declared, self._replicas, before, balance.costs),
                parts=parts,
                modules=b"" if self._local else user_modules(_functions(declared)),
                objectives=objectives,
                known=lineup.known,
                idle={name: stream.idle for name, stream in streams.items() if stream.idle is not None},
            )

        self._plan = self._driver.replan(plan)

    @property
    def _auto(self) -> bool:
        return isinstance(policy_of(self._policy), Auto)

    def _observe(self, setting: Setting) -> Observation | None:
        """On the optimizer's thread: what it sees; None if the policy is not `auto`."""
        plan, pace = self._plan, self._pace
        if plan is None or pace is None or not self._auto or not self._metrics.network:
            return None
        running = {query.name: query for query in plan.queries}
        declared = {name: query for name, query in self.queries.items() if name in running}
        figures = LiveFigures(
            time.time(),
            self._quality.judge(self._judged_queries(), self._metrics),
            self._metrics.network,
            pace.report()["reserve"],
            self._metrics.seconds.get("run", 0.0),
            os.cpu_count() or 1,
        )
        known = self._plans.offered(self._metrics.network) if self._replicas == 1 else {}
        return observed(figures, declared, setting, known, self._plans.under)

    def _apply(self, setting: Setting) -> None:
        """On the optimizer's thread: the next epoch follows another setting."""
        with self._lock:
            self._setting = setting
            if self._pace is not None:
                self._pace.aim = setting.aim
            if self._epochs is not None and self._budget is not None:
                self._epochs.budget = setting.budget
            self._changed()

    def _published(self, epoch: int) -> None:
        """On the publisher's thread: an epoch's results can be read."""
        self._metrics.published(epoch)
        if self._pace is not None:
            self._pace.published(epoch)
        self._quality.judge_when_due(self._judged_queries, self._metrics)

    def _committed(self, epoch: Epoch) -> None:
        self._metrics.committed(epoch)
        if self._pace is not None and "job" in epoch.seconds:
            seconds = epoch.seconds["job"] + epoch.seconds["commit"]
            self._pace.committed(epoch.number, epoch.taken, seconds, epoch.seconds.get("operators", 0.0))
        if epoch.metrics is not None:
            self._decisions.reported(epoch.metrics.get("decisions", ()))
        assert self._publisher is not None
        self._publisher.put(epoch.commit, epoch.inline)
        if epoch.answered:
            self._lives.answer(epoch.answered)
            if self._timetable is not None:
                self._timetable.wake()
        if epoch.metrics is not None and self._replicas > 1:
            self._balance.report(epoch.metrics)
            self._rebalance()

    def _host_processes(self) -> list[int]:
        """The supervisors of hosts beside this process."""
        epochs = self._epochs
        hosts = epochs.hosts if epochs is not None else []
        return [host.pid for host in hosts if host is not None and host.node == node()]

    def _rebalance(self) -> None:
        """On the driver's thread: changes the placement after the present epoch, if that pays."""
        driver, epochs = self._driver, self._epochs
        if driver is None or epochs is None or epochs.plan.placement is None:
            return
        if any(query.pause for query in epochs.plan.queries):
            # What waits for them cannot be moved.
            return
        better = self._balance.better(epochs.plan.run_queries, epochs.plan.placement)
        if better is None:
            return

        def moved(_: Lanes) -> Plan:
            plan = epochs.plan
            # Queries may have changed since.
            same = {query.name for query in plan.run_queries} == set(better.routes)
            return replace(plan, placement=better) if same else plan

        driver.submit(lambda: driver.replan(moved))

    def _close(self, patience: float | None = _PATIENCE) -> None:
        """Ends everything but Spark; sinks have `patience` seconds to take what is committed."""
        if self._refresh is not None:
            self._refresh.close()
        if self._timetable is not None:
            self._timetable.close()
            self._timetable = None
        tuning, self._tuning = self._tuning, None
        if tuning is not None:
            tuning.close()
        if self._driver is not None:
            self._driver.stop()
        if self._publisher is not None:
            self._publisher.close(patience)
        epochs, self._epochs = self._epochs, None
        if epochs is not None:
            epochs.end_hosts()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _functions(queries: Iterable[Query]) -> set[str]:
    """The Python functions that queries use."""
    return {function for query in queries for node in query.plan.walk() for function in node.python_functions}


def _loaded(spark: Any, table: Any) -> pa.Table:
    try:
        with expecting_errors():
            return open_table(spark, table).toArrow().cast(table.schema.arrow())
    except (*spark_errors(), pa.ArrowException) as error:
        raise EngineError(f"table {table.name} cannot be read: {reason(error)}") from error
