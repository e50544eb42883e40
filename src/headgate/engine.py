"""The engine that users import: declares streams and queries, runs them on Spark, and reports results and metrics."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa

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
from headgate.graph.queries import Query, Sink, Stream
from headgate.graph.types import Schema
from headgate.runtime.limits import Limits
from headgate.runtime.modes import mode_of
from headgate.scheduling import Scheduler, Topology, View
from headgate.scheduling import policy as policy_of
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
from headgate.spark.plan import Plan
from headgate.spark.publisher import Publisher
from headgate.spark.replicas import default_replicas, hosts_per_node, parts_of, placed
from headgate.spark.replies import Replies
from headgate.spark.results import Writer
from headgate.spark.resumption import Resumption
from headgate.spark.session import session
from headgate.spark.shipping import ship_package, user_modules
from headgate.spark.spark_errors import expecting_errors, reason, spark_errors
from headgate.spark.storage import below, is_local, without_secrets
from headgate.spark.types import to_arrow
from headgate.spark.warmup import warm_up
from headgate.sql import Catalog

_SINKS = f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}"
"""What hosts open folders with (see `Delivery`)."""


_PATIENCE = 2.5
"""Seconds that sinks have, when the engine stops, to take what is committed; the next start publishes the rest."""


def _check(policy: str) -> None:
    """PolicyError if there is no such policy, or if it runs in simulation only."""
    Scheduler(policy_of(policy), View.of(Topology.of({"operator": ["stream"]})))


class EngineError(RuntimeError):
    """The engine cannot do what it was called for, or has stopped; the message says why."""


class Engine:
    """Runs continuous queries in one Spark job.

    - `policy`: the policy that schedules the operators (`headgate.scheduling`); may be set while running
    - `checkpoint`: folder (or any URI that `pyarrow.fs` opens) for the state; without one the state is kept in a
      temporary folder and removed with the engine
    - `spark`: a session; without one a session is started on `master`, by default local and tuned for low latency
    - `budget`: seconds that an epoch may spend scheduling; the remaining rows wait for the next epoch
    - `every`: seconds between two polls of the sources; 0 polls continuously. An epoch costs about as much with few
      rows as with many, so polling less often saves processor time
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
        if replicas is not None and replicas < 1:
            raise ValueError(f"replicas is {replicas}; give the number of copies of the network, 1 or more")
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
        self._catalog = Catalog(Analyzer(lambda: self.spark).type_of, zone, connectors())
        self._frames: dict[str, Any] = {}
        self._memory: dict[str, tuple[Query, MemoryWriter]] = {}
        self._lock = threading.RLock()
        self._metrics = DriverMetrics()
        self._balance = Balance()
        self._plan: Plan | None = None
        self._tables: dict[str, pa.Table] = {}
        self._epochs: Epochs | None = None
        self._publisher: Publisher | None = None
        self._driver: Driver | None = None
        self._ended = threading.Event()
        self._hurry = False
        self.resumption: Resumption | None = None
        if self._local:
            prepare_hosts(f"{sinks.__module__}:{sinks.__name__}")

    # Declaring --------------------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The Spark session; started when it is first needed."""
        with self._lock:
            if self._spark is None:
                self._spark = session("headgate", self._master, local_files=is_local(self._lane_log or self._folder))
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

    def execute(self, text: str, file: str = "<text>") -> None:
        """Executes statements: CREATE CLASS, STREAM, TABLE, FUNCTION, QUERY …; SqlError at the first problem."""
        with self._lock:
            before = set(self._catalog.queries)
            self._catalog.execute(text, file=file)
            self._add_queries(before)

    def stream(self, name: str, frame: Any) -> None:
        """Declares any streaming DataFrame as a stream; `frame.withWatermark(…)` gives its event time."""
        if not frame.isStreaming:
            raise EngineError(f"stream {name}: the DataFrame is not streaming; make it with spark.readStream")
        columns = [(part.name, to_arrow(part.dataType)) for part in frame.schema.fields]
        event: int | None = None
        delay = 0
        for place, part in enumerate(frame.schema.fields):
            if "spark.watermarkDelayMs" in part.metadata:
                event, delay = place, int(part.metadata["spark.watermarkDelayMs"]) * 1000
        with self._lock:
            self._catalog.add_stream(Stream(name, Schema.of(*columns), event, delay, "dataframe"))
            self._frames[name] = frame
            self._changed()

    def query(self, name: str, select: str, *, cls: str | None = None, sink: Sink | Sequence[Sink] = ()) -> Query:
        """Declares a query. Its newest rows can always be read with `results`, whatever its sinks are."""
        sinks = (sink,) if isinstance(sink, Sink) else tuple(sink)
        with self._lock:
            before = set(self._catalog.queries)
            made = self._catalog.query(name, select, cls, sinks)
            self._add_queries(before)
            return made

    def drop(self, name: str) -> None:
        """Stops a query and drops its state."""
        with self._lock:
            if name not in self._catalog.queries:
                raise EngineError(f"there is no query {name}")
            self._catalog.drop_query(name)
            self._metrics.forget_failure(name)
            self._changed()

    @property
    def queries(self) -> dict[str, Query]:
        """The queries as declared."""
        return dict(self._catalog.queries)

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
        """Starts running, or continues where the checkpoint ended. Returns when the streams are being read."""
        driver = self._open()
        if self.resumption is not None and self.resumption.complete:
            self._close()
            raise EngineError(
                f"checkpoint {without_secrets(self._folder)} is complete: every stream in it has ended; give another"
                " checkpoint"
            )
        try:
            driver.start(once=False)
        except BaseException:
            self._close()
            raise

    def run_once(self) -> None:
        """Reads all rows that are available now, ends the streams, emits every window, and stops."""
        driver = self._open()
        try:
            if self.resumption is None or not self.resumption.complete:
                driver.start(once=True)
                driver.wait()
        finally:
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
        """The newest rows of a query; for a query that updates, the current row of each key."""
        known = self._memory.get(query)
        if known is not None:
            return known[1].table()
        if query not in self._catalog.queries:
            names = ", ".join(sorted(self._catalog.queries)) or "none"
            raise EngineError(f"there is no query {query}; there are: {names}")
        return self._catalog.queries[query].schema.arrow().empty_table()

    def metrics(self) -> dict[str, Any]:
        """Figures per query, class, unit and operator.

        `latency` is in seconds, from the start of the micro-batch that brought a row until its result can be read at
        the sinks; `network_latency` ends when the worker has made the result.
        """
        with self._lock:
            report = self._metrics.report(self.queries, self._catalog.classes, self._epochs is not None)
            waiting = self._epochs.waiting if self._epochs is not None else 0
            return {**report, "policy": self._policy, "waiting": waiting}

    def forget_latency(self) -> None:
        """Restarts the latency figures, for example to measure the effect of a change."""
        self._metrics.forget_latency()

    # Inside -----------------------------------------------------------------------------------------------

    def _open(self) -> Driver:
        with self._lock:
            if self._epochs is not None:
                raise EngineError("the engine is already running")
            if not self._catalog.queries:
                raise EngineError("there is nothing to run: declare a query first")
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
        self._tables = {name: _loaded(spark, table) for name, table in dict(self._catalog.tables).items()}
        self._publisher = Publisher(
            checkpoint,
            lambda query, sink: self._open_sink(query, sink, run),
            dead_letters(self.dead_letters, run),
            lambda epoch: self._metrics.published(epoch),
            self._ended.set,
            kept=not self._temporary,
        )
        jobs = SparkJobs(spark, f"headgate-{run}", Replies(host_folder(), token) if self._local else None)
        epochs = self._epochs = Epochs(
            jobs, checkpoint, run, token, self._committed, self._budget, owner, starting, self._beside
        )
        self.resumption = Resumption.of(checkpoint, epochs.commit, self.queries)
        log = open_lane_log(spark, checkpoint, self._lane_log, run)
        if not epochs.commit.complete:
            log.check(checkpoint.name, epochs.commit.lanes)

        def lanes(driver: Driver) -> Lanes:
            sources = SparkStreams(spark)
            known = (driver.deliver, driver.ended, driver.refuse)
            return Lanes(sources, checkpoint, log, self._frames, *known, self._every)

        self._ended.clear()
        self._hurry = False
        driver = self._driver = Driver(epochs, lanes, checkpoint.name, self._ended.set)
        for query in self.queries.values():
            self._open_sinks(query)
        self._publisher.republish()
        failed = epochs.failed(self.queries.values())
        self._metrics = DriverMetrics({name: str(f) for name, f in failed.items()}, time.monotonic())
        self._plan = None
        self._balance = Balance()
        self._changed()
        return driver

    def _open_sinks(self, query: Query) -> None:
        assert self._publisher is not None
        if any(sink.format == MemorySink.name for sink in query.sinks):
            self._publisher.open(query)
        else:
            self._publisher.open(query, (Sink(MemorySink.name),))

    def _open_sink(self, query: Query, sink: Sink, run: str) -> Writer:
        """Opens a sink; the rows in memory outlive a stop and a start."""
        if sink.format != MemorySink.name:
            return open_sink(self.spark, query, sink, run)
        known = self._memory.get(query.name)
        if known is None or known[0] != query:
            writer = MemorySink().open(self.spark, query, {"rows": str(self._kept), **sink.options}, run)
            known = self._memory[query.name] = (query, writer)
        known[1].follow(run)
        return known[1]

    def _add_queries(self, before: set[str]) -> None:
        """Lets the next epoch run the queries declared since `before`; drops them again if that fails."""
        try:
            self._changed()
        except Exception:
            for name in set(self._catalog.queries) - before:
                self._catalog.drop_query(name)
            raise

    def _changed(self) -> None:
        """A declaration or the policy changed: the next epoch uses the new plan."""
        if self._driver is None or self._epochs is None:
            return
        queries = self.queries
        before = {query.name for query in self._plan.queries} if self._plan is not None else set()
        for name, query in queries.items():
            if self._plan is not None and name not in before:
                self._open_sinks(query)
        streams = dict(self._catalog.streams)
        epochs, balance = self._epochs, self._balance

        def plan(lanes: Lanes) -> Plan:
            declared = tuple(queries.values())
            before = epochs.known_plan(self._replicas)
            parts = parts_of(declared, self._replicas)
            return Plan(
                declared,
                self._policy,
                mode=self._mode,
                threads=self._threads,
                tables=self._tables,
                packings=lanes.plan(streams, declared),
                limits=Limits(memory=None if self._spill_limit is None else max(1, self._spill_limit // self._beside)),
                delivery=Delivery(_SINKS, os.getcwd(), self._kept, self.dead_letters),
                placement=placed(parts or declared, self._replicas, before, balance.costs),
                parts=parts,
                modules=b"" if self._local else user_modules(_functions(queries.values())),
            )

        self._plan = self._driver.replan(plan)

    def _committed(self, epoch: Epoch) -> None:
        self._metrics.committed(epoch)
        assert self._publisher is not None
        self._publisher.put(epoch.commit, epoch.inline)
        if epoch.metrics is not None and self._replicas > 1:
            self._balance.report(epoch.metrics)
            self._rebalance()

    def _rebalance(self) -> None:
        """On the driver's thread: changes the placement after the present epoch, if that pays."""
        driver, epochs = self._driver, self._epochs
        if driver is None or epochs is None or epochs.plan.placement is None:
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
