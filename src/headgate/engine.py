"""The engine: what users import. Declares streams and queries, runs them on Spark, tells how they are doing."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query, Sink, Stream
from headgate.graph.types import Schema
from headgate.operators.batch import Arrival
from headgate.runtime.latency import Latency
from headgate.runtime.limits import Limits
from headgate.runtime.modes import mode_of
from headgate.scheduling import Scheduler, Topology, View
from headgate.scheduling import policy as policy_of
from headgate.spark.analysis import Analyzer
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.lanes import Lanes
from headgate.spark.plan import Plan
from headgate.spark.publisher import Publisher
from headgate.spark.session import session
from headgate.spark.sinks.memory import MemoryWriter
from headgate.spark.sources import open_table
from headgate.spark.types import to_arrow
from headgate.spark.warmup import warm_up
from headgate.sql import Catalog

_GIVE_WAY = 0.2
"""The most (s) that an epoch without new rows waits for rows that a lane is about to bring."""


def _check(policy: str) -> None:
    """PolicyError if there is no such policy, or if it runs in simulation only."""
    Scheduler(policy_of(policy), View.of(Topology.of({"operator": ["stream"]})))


class EngineError(RuntimeError):
    """The engine cannot do what was asked, or has stopped; the message says why."""


@dataclass(frozen=True)
class Resumption:
    """Where a restart goes on, and what differs from the script that wrote the checkpoint."""

    epoch: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    complete: bool = False

    def lines(self) -> list[str]:
        """For people: one line a fact."""
        if self.complete:
            return [f"the checkpoint is complete: it ended with epoch {self.epoch}, and every window was put out"]
        told = [f"goes on after epoch {self.epoch}"]
        told += [f"query {name} is new: it sees rows from now on" for name in self.added]
        told += [f"query {name} is not in the script any more: its state is dropped" for name in self.removed]
        told += [
            f"query {name} was changed: what it does not share with its old form starts empty" for name in self.changed
        ]
        return told


@dataclass
class _Totals:
    """What the driver counts itself."""

    epochs: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = 0.0
    latency: dict[str, Latency] = field(default_factory=dict)
    arrivals: dict[int, dict[str, Arrival]] = field(default_factory=dict)
    """Of the epochs that are committed and not yet published."""


class Engine:
    """Runs continuous queries in one Spark job.

    - `policy`: which policy schedules the operators (`headgate.scheduling`); may be set while running
    - `checkpoint`: the folder (or any URI that `pyarrow.fs` opens) that holds the state; without one the state is
      kept in a temporary folder and goes with the engine
    - `spark`: a session; without one a session is started on `master`, by default local and tuned for low latency
    - `budget`: seconds that an epoch may spend scheduling; what is left waits for the next
    - `every`: seconds from one look for new rows to the next; 0 looks all the time. An epoch costs about as much with
      few rows as with many, so rows that may wait are cheaper
    - `mode`, `threads`: how units are spread over threads (see `headgate.runtime`)
    - `memory`: bytes that waiting rows may take before they go to files

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
        results: int = 10_000,
        dead_letters: str | None = None,
    ) -> None:
        _check(policy)
        self._policy = policy
        self._temporary = checkpoint is None
        self._folder = checkpoint or tempfile.mkdtemp(prefix="headgate-")
        self._spark = spark
        self._own_session = spark is None
        self._master = master
        if every < 0:
            raise ValueError(f"every is {every}; give the seconds between two looks for new rows, 0 or more")
        self._budget = budget
        self._every = every
        self._mode = mode_of(mode)
        self._threads = threads
        self._limits = Limits(memory=memory)
        self._kept = results
        self._dead_folder = dead_letters
        zone = "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))
        self._catalog = Catalog(type_of=Analyzer(lambda: self.spark).type_of, time_zone=zone)
        self._frames: dict[str, Any] = {}
        self._memory: dict[str, MemoryWriter] = {}
        self._lock = threading.RLock()
        self._totals = _Totals()
        self._plan: Plan | None = None
        self._tables: dict[str, pa.Table] = {}
        self._epochs: Epochs | None = None
        self._publisher: Publisher | None = None
        self._lanes: Lanes | None = None
        self._backlog: threading.Thread | None = None
        self._more = threading.Event()
        self._stopping = threading.Event()
        self.resumption: Resumption | None = None

    # Declaring --------------------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The Spark session; started when it is first needed."""
        with self._lock:
            if self._spark is None:
                self._spark = session("headgate", self._master)
                warm_up(self._spark)
            return self._spark

    @property
    def catalog(self) -> Catalog:
        """Everything declared so far."""
        return self._catalog

    def execute(self, text: str, file: str = "<text>") -> None:
        """Carries out statements: CREATE CLASS, STREAM, TABLE, FUNCTION, QUERY …; SqlError at the first problem."""
        with self._lock:
            self._catalog.execute(text, file=file)
            self._changed()
        self._apply()

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
        self._apply()

    def query(self, name: str, select: str, *, cls: str | None = None, sink: Sink | Sequence[Sink] = ()) -> Query:
        """Declares a query. Its newest rows can always be read with `results`, whatever its sinks are."""
        sinks = (sink,) if isinstance(sink, Sink) else tuple(sink)
        with self._lock:
            made = self._catalog.query(name, select, cls, sinks)
            self._changed()
        self._apply()
        return made

    def drop(self, name: str) -> None:
        """Stops a query and forgets its state."""
        with self._lock:
            if name not in self._catalog.queries:
                raise EngineError(f"there is no query {name}")
            self._catalog.drop_query(name)
            self._totals.failed.pop(name, None)
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
        """Begins to run, or goes on where the checkpoint ended. Returns when the streams are being read."""
        self._open()
        if self.resumption is not None and self.resumption.complete:
            raise EngineError(
                f"checkpoint {self._folder} is complete: every stream in it has ended; give another checkpoint"
            )
        assert self._lanes is not None
        self._lanes.start(once=False)
        self._backlog = threading.Thread(target=self._work_off, name="headgate-backlog", daemon=True)
        self._backlog.start()

    def run_once(self) -> None:
        """Reads all that is there now, ends the streams, puts out every window, and stops."""
        self._open()
        try:
            if self.resumption is None or not self.resumption.complete:
                assert self._lanes is not None
                assert self._epochs is not None
                self._lanes.start(once=True)
                self._lanes.wait()
                self._raise_failure()
                self._epochs.backlog(finish=True)
        finally:
            self._close()
        self._raise_failure()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the engine stops by itself; True if it has, False when the time is over."""
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            if self.failure is not None or (self._lanes is not None and not self._lanes.active):
                self._raise_failure()
                return True
            time.sleep(0.05)
        return False

    def interrupt(self) -> None:
        """Ends `run_once` early, after the epoch that runs."""
        epochs = self._epochs
        if epochs is not None:
            epochs.close()
        if self._lanes is not None:
            self._lanes.stop()

    def stop(self) -> None:
        """Finishes the epoch that runs, publishes its results and leaves a checkpoint to go on from."""
        self._close()
        if self._own_session and self._spark is not None:
            # Cut off in the middle of that, Spark would tell of it at length.
            warm_up(self._spark).join()
            self._spark.stop()
            self._spark = None

    @property
    def failure(self) -> Exception | None:
        """Why it stopped by itself, or None."""
        if self._publisher is not None and self._publisher.failure is not None:
            return self._publisher.failure
        return self._lanes.failure if self._lanes is not None else None

    @property
    def dead_letters(self) -> str:
        """The folder that malformed rows are put in."""
        return self._dead_folder or ("dead-letters" if self._temporary else f"{self._folder}/dead-letters")

    # Asking -----------------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """The newest rows of a query; for one that updates, the current row of each key."""
        writer = self._memory.get(query)
        if writer is not None:
            return writer.table()
        if query not in self._catalog.queries:
            known = ", ".join(sorted(self._catalog.queries)) or "none"
            raise EngineError(f"there is no query {query}; there are: {known}")
        return self._catalog.queries[query].schema.arrow().empty_table()

    def metrics(self) -> dict[str, Any]:
        """How it is doing: per query, class, unit and operator.

        `latency` is in seconds, from the start of the micro-batch that brought a row to the moment its result can be
        read at the sinks; `network_latency` ends when the result is made in the worker.
        """
        with self._lock:
            totals = self._totals
            elapsed = time.monotonic() - totals.started if totals.started else 0.0
            network = dict(totals.network)
            queries: dict[str, Any] = {}
            classes: dict[str, Any] = {}
            merged: dict[str, Latency] = {}
            for name, query in self.queries.items():
                told = dict(network.get("queries", {}).get(name, {}))
                latency = totals.latency.get(name, Latency())
                merged.setdefault(query.cls.name, Latency()).merge(latency)
                told["class"] = query.cls.name
                told["network_latency"] = told.get("latency", Latency().figures())
                told["latency"] = latency.figures()
                told["published"] = totals.rows.get(name, 0)
                told["error"] = totals.failed.get(name) or told.get("error")
                running = "running" if self._epochs is not None else "stopped"
                told["state"] = "failed" if told["error"] else running
                queries[name] = told
            for name, latency in merged.items():
                told = dict(network.get("classes", {}).get(name, {}))
                told["network_latency"] = told.get("latency", Latency().figures())
                told["latency"] = latency.figures()
                told["priority"] = float(self._catalog.classes[name].priority)
                classes[name] = told
            return {
                **network,
                "queries": queries,
                "classes": classes,
                "policy": self._policy,
                "epochs": totals.epochs,
                "epochs_per_second": totals.epochs / elapsed if elapsed else 0.0,
                "epoch_seconds": dict(totals.seconds),
                "waiting": self._epochs.waiting if self._epochs is not None else 0,
                "dead_letters": dict(totals.dead),
            }

    def forget_latency(self) -> None:
        """Begins the figures of latency anew, for example when a change is to be judged."""
        with self._lock:
            self._totals.latency.clear()

    # Inside -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        with self._lock:
            if self._epochs is not None:
                raise EngineError("the engine runs already")
            if not self._catalog.queries:
                raise EngineError("there is nothing to run: declare a query first")
            spark = self.spark
            spark.conf.set("spark.sql.session.timeZone", self._catalog.time_zone)
            checkpoint = Checkpoint(self._folder)
            checkpoint.probe()
            run = checkpoint.identity()
            self._tables = {name: _loaded(spark, table) for name, table in dict(self._catalog.tables).items()}
            self._publisher = Publisher(
                checkpoint, run, spark, self._put_aside, self._published, kept=not self._temporary
            )
            self._epochs = Epochs(spark, checkpoint, run, self._planned, self._committed, self._budget, warm_up(spark))
            self.resumption = _resumption(self._epochs, self.queries)
            self._lanes = Lanes(spark, checkpoint, self._frames, self._epochs.lane, self._every)
            for query in self.queries.values():
                self._open_sinks(query)
            self._publisher.again(self.queries)
            failed = self._epochs.failed(self.queries.values())
            self._totals = _Totals(started=time.monotonic(), failed={name: str(f) for name, f in failed.items()})
            self._changed()

    def _open_sinks(self, query: Query) -> None:
        assert self._publisher is not None
        if query.name not in self._memory:
            self._memory[query.name] = MemoryWriter(query.schema.arrow(), self._kept)
        self._publisher.open(query, (self._memory[query.name],))

    def _changed(self) -> None:
        """Something was declared or set: the next epoch takes it up."""
        if self._epochs is None or self._lanes is None or self._publisher is None:
            return
        queries = self.queries
        before = {query.name for query in self._plan.queries} if self._plan is not None else set()
        for name, query in queries.items():
            if self._plan is not None and name not in before:
                self._open_sinks(query)
        packings = self._lanes.carry(dict(self._catalog.streams), list(queries.values()))
        self._plan = Plan(
            tuple(queries.values()),
            self._policy,
            mode=self._mode,
            threads=self._threads,
            tables=self._tables,
            packings=packings,
            limits=self._limits,
        )

    def _apply(self) -> None:
        """Lets the lanes take up what was declared; without the lock, since a lane's epoch may want it."""
        if self._lanes is not None:
            self._lanes.apply()

    def _planned(self) -> Plan:
        with self._lock:
            assert self._plan is not None
            return self._plan

    def _committed(self, epoch: Epoch) -> None:
        with self._lock:
            totals = self._totals
            totals.epochs += 1
            totals.failed.update(epoch.failed)
            totals.seconds = epoch.seconds
            totals.arrivals[epoch.number] = epoch.arrivals
            if epoch.metrics is not None:
                totals.network = epoch.metrics
            for name, table in epoch.results:
                totals.rows[name] = totals.rows.get(name, 0) + table.num_rows
        assert self._publisher is not None
        self._publisher.put(epoch.number, epoch.results)
        if epoch.waiting:
            self._more.set()

    def _published(self, epoch: int) -> None:
        """All sinks have an epoch: from here on its results can be read, which is what latency means."""
        now = time.time()
        with self._lock:
            for query, arrival in self._totals.arrivals.pop(epoch, {}).items():
                self._totals.latency.setdefault(query, Latency()).add(now, arrival)

    def _put_aside(self, epoch: int, rows: pa.Table) -> None:
        """Writes malformed rows where somebody can look at them."""
        from headgate.spark.sinks import Results
        from headgate.spark.sinks.files import FolderWriter

        FolderWriter("rows", "json", {"path": self.dead_letters}, "dead").publish(Results("rows", epoch, rows))
        with self._lock:
            for name in rows.column("stream").to_pylist():
                self._totals.dead[name] = self._totals.dead.get(name, 0) + 1

    def _work_off(self) -> None:
        """Gives backlog epochs of its own while no new rows come."""
        assert self._epochs is not None
        assert self._lanes is not None
        while not self._stopping.is_set():
            self._more.wait(0.2)
            self._more.clear()
            if self._stopping.is_set():
                return
            try:
                # Rows on their way would have to wait for the whole of it.
                until = time.monotonic() + _GIVE_WAY
                while self._epochs.waiting and self._lanes.coming and time.monotonic() < until:
                    time.sleep(0.005)
                self._epochs.backlog()
            except Exception as error:
                self._lanes.fail(error)
                return

    def _close(self) -> None:
        self._stopping.set()
        self._more.set()
        if self._epochs is not None:
            self._epochs.close()
        if self._lanes is not None:
            self._lanes.stop()
        if self._backlog is not None:
            self._backlog.join()
        if self._publisher is not None:
            self._publisher.close()
        self._epochs = None
        self._stopping.clear()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _resumption(epochs: Epochs, queries: Mapping[str, Query]) -> Resumption | None:
    commit = epochs.commit
    if commit.epoch < 0:
        return None
    before = commit.plan
    return Resumption(
        commit.epoch,
        tuple(name for name in queries if name not in before),
        tuple(name for name in before if name not in queries),
        tuple(name for name, query in queries.items() if name in before and before[name]["sql"] != query.sql),
        commit.complete,
    )


def _loaded(spark: Any, table: Any) -> pa.Table:
    return open_table(spark, table).toArrow().cast(table.schema.arrow())
