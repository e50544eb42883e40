"""`Engine`: the interface by which users declare streams and queries, run them, and read results and metrics."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa

from headgate.connectors.registry import connectors, sinks
from headgate.control.lifecycle import has_begun
from headgate.control.query_control import EngineError, QueryControl
from headgate.engine.declarations import Declarations
from headgate.engine.metrics import EngineMetrics
from headgate.engine.options import EngineOptions, check_replicas
from headgate.engine.query_sinks import QuerySinks
from headgate.engine.run import CLOSE_TIMEOUT, EngineRun
from headgate.explanation.explained import Explanation, explain
from headgate.graph.queries import Query, Sink
from headgate.graph.specs import Spec
from headgate.runtime.latency import Latency
from headgate.runtime.modes import mode_of
from headgate.scheduling.live import check_live
from headgate.spark.analysis import Analyzer
from headgate.spark.driver import EngineStopping
from headgate.spark.host_client import prepare_hosts
from headgate.spark.lazy_session import LazySession
from headgate.spark.pace import TRIGGER_CORES
from headgate.spark.packages import named_in
from headgate.spark.results import Results
from headgate.spark.resumption import Resumption
from headgate.spark.source_rows import stream_of
from headgate.spark.storage import is_local, without_secrets
from headgate.sql import Catalog
from headgate.sql.catalog import Result

_START_PATIENCE = 1.0
"""Seconds that a stop waits for a start that it has met."""


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
    - `replicas`: copies of the network, each in its own process, among which queries and keys are divided; by
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
        check_live(policy)
        check_replicas(replicas)
        options = self._options = EngineOptions(
            folder=checkpoint or tempfile.mkdtemp(prefix="headgate-"),
            temporary=checkpoint is None,
            budget=budget,
            every=every,
            trigger_cores=trigger_cores,
            mode=mode_of(mode),
            threads=threads,
            memory=memory,
            results=results,
            dead_letters_folder=dead_letters,
            lane_log=lane_log,
        )
        session = self._session = LazySession(spark, master, is_local(lane_log or options.folder))
        types = Analyzer(lambda: session.spark).type_of
        self._catalog = Catalog(types, session.time_zone, connectors(), known=self._has_begun)
        self._declared = Declarations(self._catalog, policy, replicas)
        self._sinks = QuerySinks(session, results)
        self._metrics = EngineMetrics()
        self._reported = self._declared.reported()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._run: EngineRun | None = None
        """The present or the last run."""
        self._running_once = False
        self._stops = 0
        """Number of calls of `stop`: a start that one of them meets ends without effect."""
        if session.local:
            prepare_hosts(f"{sinks.__module__}:{sinks.__name__}")

    # Declaring --------------------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The Spark session; started when it is first needed."""
        return self._session.spark

    @property
    def catalog(self) -> Catalog:
        """Everything declared so far."""
        return self._catalog

    def execute(self, text: str, file: str = "<text>") -> list[Result]:
        """Executes statements: CREATE CLASS, STREAM, TABLE, FUNCTION, QUERY …; SqlError at the first problem.

        All take effect or none, even if a source or a sink cannot be opened (SourceError, SinkError).
        """
        with self._lock, self._changing() as dropped:
            known = self._catalog.mark().queries
            done = self._catalog.execute(text, file=file)
            self._session.need(named_in(text))
            dropped += [known[each.name].name for each in done if each.done == "dropped" and each.name in known]
            return done

    def stream(self, name: str, frame: Any, idle: str | None = None) -> None:
        """Declares any streaming DataFrame as a stream; `frame.withWatermark(…)` gives its event time. After `idle`
        ('10 seconds') without rows it no longer holds back joins and unions."""
        if not frame.isStreaming:
            raise EngineError(f"stream {name}: the DataFrame is not streaming; make it with spark.readStream")
        with self._lock, self._changing():
            self._catalog.add_stream(stream_of(name, frame), idle)
            self._declared.frames[name] = frame

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

        `spec` corresponds to the WITH clause in SQL: {"latency": "500 ms", "tolerance": "10%"}. It runs from `start` to
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
        """Runs a failed query again. It starts without state and sees the rows that arrive from now on."""
        with self._lock:
            query = self.declared(name)
            if self.metrics()["queries"][query.name]["state"] != "failed":
                raise EngineError(f"query {query.name} has not failed: there is nothing to try again")
            self._declared.discard_state(query.name)
            self._replan()
            self._metrics.driver.forget_failure(query.name)

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
        return self._declared.queries

    def declared(self, name: str) -> Query:
        """A query by its name, which is not case-sensitive; EngineError if there is none."""
        if name not in self._catalog.queries:
            names = ", ".join(sorted(self._catalog.queries)) or "none"
            raise EngineError(f"there is no query {name}; there are: {names}")
        return self._catalog.queries[name]

    @property
    def policy(self) -> str:
        """The policy that schedules the operators; may be set while running."""
        return self._declared.policy

    @policy.setter
    def policy(self, policy: str) -> None:
        check_live(policy)
        with self._lock:
            self._declared.policy = policy
            self._replan()
            self._reported = self._declared.reported()

    # Running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts running, or continues where the checkpoint ended. Returns when the streams are being read.

        Queries may be declared later: an engine without any waits for the first.
        """
        run = self._open()
        try:
            if run.complete:
                raise EngineError(
                    f"checkpoint {without_secrets(self._options.folder)} is complete: every stream in it has ended;"
                    " give another checkpoint"
                )
            run.start()
        except BaseException:
            self._close()
            raise

    def run_once(self) -> None:
        """Reads all rows that are available now, ends the streams, emits every window, and stops."""
        if not self._catalog.queries:
            raise EngineError("there is nothing to run: declare a query first")
        run = self._open()
        try:
            if not run.complete:
                self._declared.lifecycles.check_all_run(self.queries)
                self._running_once = True
                run.run_once()
        finally:
            self._running_once = False
            self._close(CLOSE_TIMEOUT if run.hurried else None)
        self._raise_failure()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the engine stops by itself; True if it has, False after `seconds`."""
        if not self._ended.wait(seconds):
            return False
        self._raise_failure()
        return True

    def interrupt(self) -> None:
        """Ends `run_once` early, after the running epoch."""
        run = self._run
        if run is not None:
            run.interrupt()

    def stop(self) -> None:
        """Finishes the running epoch, publishes its results and leaves a checkpoint to continue from.

        Ends within 10 s: an epoch that takes longer is abandoned, and its rows are read again at the next start. A
        `start` on another thread that it meets raises EngineError.
        """
        self._stops += 1
        self._close()
        if not self._running and self._lock.acquire(timeout=_START_PATIENCE):
            self._lock.release()
        self._session.stop()

    @property
    def failure(self) -> Exception | None:
        """Why the engine stopped by itself, or None."""
        return self._run.failure if self._run is not None else None

    @property
    def resumption(self) -> Resumption | None:
        """What the present or last run took over from the checkpoint; None if there was nothing."""
        return self._run.resumption if self._run is not None else None

    @property
    def dead_letters(self) -> str:
        """The folder that malformed rows are written to."""
        return self._options.dead_letters

    @property
    def replicas(self) -> int:
        """The number of copies of the network."""
        return self._declared.replicas or (1 if self._run is None else self._run.replicas)

    def rescale(self, replicas: int) -> None:
        """Changes the number of replicas, also while running: state moves to its new owners, exactly once."""
        check_replicas(replicas)
        with self._lock:
            before, self._declared.replicas = self._declared.replicas, replicas
            try:
                if self._run is not None:
                    self._run.rescale()
            except Exception:
                self._declared.replicas = before
                raise

    # Results and metrics ----------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """The newest rows of a query; for a query that updates, the current row of each key.

        If rows of the query are shed, the metadata of the schema has their share (`shed`).
        """
        declared = self.declared(query)
        found = self._sinks.newest(declared)
        shed = self._metrics.driver.shed(declared.name)
        return found.replace_schema_metadata({"shed": f"{shed:.4f}"}) if shed else found

    def follow(self, query: str, listener: Callable[[Results], None]) -> Callable[[], None]:
        """Calls `listener` with the results of each epoch from now on, of the rows that `results` keeps, until the
        returned function is called.

        `listener` is called on the thread that publishes results and blocks it: it must return at once and never raise.
        """
        return self._sinks.follow(self.declared(query).name, listener)

    def metrics(self) -> dict[str, Any]:
        """Figures per query, class, unit and operator.

        `latency` is in seconds, from the arrival of a row until its result can be read at the sinks; rows are assumed
        to arrive evenly between two polls of their source. `network_latency` is from the start of the micro-batch until
        the worker has computed the result. A query's `spec` is None or has what is asked, measured and met
        (`control/compliance.py`); `objectives` has the weight of each metric and its value over about the last half
        second; `pace` reports the pauses between epochs. Never waits: while a change waits for the running epoch, the
        declarations are those before it.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._reported = self._declared.reported()
            finally:
                self._lock.release()
        run = self._run
        report = self._metrics.report(self._reported, self._running, None if run is None else run.tuning)
        return {**report, **({"waiting": 0, "tables": {}} if run is None else run.report())}

    def decisions(self) -> list[dict[str, Any]]:
        """The decisions of the engine itself, oldest first: which policy each class uses, and the steps of the
        run-time optimizer. Each decision has its time (s since 1970), its kind and subject, the choice (`chosen`) and
        the one `before`, the `reason`, the `scores` that it is based on, the `expected` effect and the measured one
        (`came`); see `headgate.scheduling.decisions`."""
        return self._metrics.decisions.all()

    def latencies(self) -> dict[str, Latency]:
        """The latencies of each query's results since the start; `Latency.since` gives those of a recent interval."""
        return self._metrics.driver.latencies()

    def explain(self) -> Explanation:
        """The shared graph of all queries, its units under the present policy before anything is measured, and where
        they run."""
        with self._lock:
            declared = self._catalog.mark()
        present = self._run.placement if self._run is not None and self._running else None
        replicas = self.replicas if present is None else present.replicas
        return explain(declared, self.policy, replicas, present)

    def forget_latency(self) -> None:
        """Restarts the latency figures, for example to measure the effect of a change."""
        self._metrics.driver.forget_latency()

    # Inside -----------------------------------------------------------------------------------------------

    @property
    def _running(self) -> bool:
        return self._run is not None and self._run.running

    def _has_begun(self, name: str, sql: str) -> bool:
        """Whether the checkpoint knows a query that is being declared, before the engine starts."""
        return not self._options.temporary and not self._running and has_begun(self._options.folder, name, sql)

    def _open(self) -> EngineRun:
        stops = self._stops
        with self._lock:
            if self._running:
                raise EngineError("the engine is already running")
            self._run = None
            try:
                shared = (self._declared, self._session, self._sinks, self._metrics)
                self._run = EngineRun(self._options, *shared, self._lock, self._ended)
                if self._stops != stops:
                    raise EngineStopping("after its start")
                # Queries may continue as they were when the checkpoint was written.
                self._reported = self._declared.reported()
                return self._run
            except BaseException as error:
                self._close()
                if self._stops == stops:
                    raise
                # It may have started Spark again.
                self._session.stop()
                raise EngineError("the engine was stopped while it started") from error

    def _close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Ends the run, but not Spark; sinks have `timeout` seconds to write committed results."""
        if self._run is not None:
            self._run.close(timeout)
        if self._options.temporary:
            shutil.rmtree(self._options.folder, ignore_errors=True)

    def _replan(self) -> None:
        """Called after a change: if the engine runs, the next epoch uses it."""
        if self._run is not None:
            self._run.replan()

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """The context of a change of the catalog: the next epoch uses it; if that fails, the catalog is restored.

        The caller adds the queries that the change drops to the yielded list: if one is declared again, it is another
        query and starts without state, even if its text is the same.
        """
        before, opened = self._declared.mark(), self._sinks.mark()
        dropped: list[str] = []
        try:
            yield dropped
            for name in dropped:
                self._declared.discard_state(name)
                self._sinks.forget(name)
            self._replan()
        except Exception:
            self._declared.back_to(before)
            self._sinks.back_to(opened)
            raise
        for name in dropped:
            self._metrics.forget(name)
        self._reported = self._declared.reported()
        again = self._declared.lifecycles.note(before.catalog.queries, self.queries, self._running)
        if self._run is not None:
            self._run.wake(again)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure
