"""The peer: plain Structured Streaming with one streaming query per query; and how both sides are run and timed."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Protocol

import pyarrow as pa

from headgate.bench.feed import SCHEMA, FeedProcess


class Latencies:
    """Collects the age of rows when their results can be read (from column `arrived`). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, list[pa.Array]] = {}
        self.since = inf
        """Results before this time are ignored; until it is set, all results are."""

    def add(self, query: str, arrived: pa.ChunkedArray) -> None:
        now = time.time()
        if now < self.since or not len(arrived):
            return
        with self._lock:
            self._values.setdefault(query, []).append(pa.compute.subtract(pa.scalar(now), arrived.combine_chunks()))

    def take(self, query: str, answers: pa.Table) -> None:
        self.add(query, answers.column("arrived"))

    def within(self, seconds: float) -> float:
        """The share of all results whose age is at most `seconds`."""
        with self._lock:
            ages = pa.chunked_array([values for each in self._values.values() for values in each], pa.float64())
        return float(pa.compute.mean(pa.compute.less_equal(ages, seconds)).as_py()) if len(ages) else 0.0

    def growth(self, queries: Sequence[str]) -> float:
        """By how much (s) the last fourth of the results of these queries is older than the first, on average over the
        queries that have results."""
        found: list[float] = []
        for query in queries:
            with self._lock:
                ages = pa.chunked_array(self._values.get(query, []), pa.float64())
            if fourth := len(ages) // 4:
                first, last = ages.slice(0, fourth), ages.slice(len(ages) - fourth)
                found.append(pa.compute.mean(last).as_py() - pa.compute.mean(first).as_py())
        return sum(found) / len(found) if found else 0.0

    def of(self, queries: Sequence[str]) -> tuple[float, float, int]:
        """Mean and 99th percentile (s) and number of the results of these queries; infinite if there are none."""
        with self._lock:
            ages = [values for query in queries for values in self._values.get(query, [])]
        if not ages:
            return float("inf"), float("inf"), 0
        merged = pa.chunked_array(ages)
        return (
            float(pa.compute.mean(merged).as_py()),
            float(pa.compute.quantile(merged, 0.99)[0].as_py()),
            len(merged),
        )


class Plain:
    """Runs each SELECT as a streaming query over folders of Parquet files, or other streams.

    - `source`: the folder with one of each stream, whose columns are those of the benches; or a function that returns
      the streaming DataFrame of a stream
    - `take`: gets the name of a query and the answers of a trigger
    - `pools`: one FAIR pool per query
    - `updating`: queries whose answers update earlier ones
    """

    def __init__(
        self,
        spark: Any,
        queries: Mapping[str, str],
        streams: Sequence[str],
        source: str | Callable[[str], Any],
        take: Latencies | Callable[[str, pa.Table], None],
        pools: bool = False,
        delay: float = 1.0,
        updating: Collection[str] = (),
    ) -> None:
        self._spark = spark
        self._queries = dict(queries)
        self._streams = tuple(streams)
        self._source = source
        self._take = take.take if isinstance(take, Latencies) else take
        self._updating = updating
        self._pools = pools
        self._delay = delay
        self._checkpoint = tempfile.mkdtemp(prefix="headgate-plain-")
        self._running: dict[str, Any] = {}
        self._stopping = False
        self.triggers: dict[str, int] = {}

    def start(self) -> None:
        for stream in self._streams:
            self._rows(stream).withWatermark("ts", f"{self._delay} seconds").createOrReplaceTempView(stream)
        for name, select in self._queries.items():
            if self._pools:
                self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
            writer = self._spark.sql(select).writeStream.foreachBatch(self._sink(name))
            if name in self._updating:
                writer = writer.outputMode("update")
            self._running[name] = writer.option("checkpointLocation", f"{self._checkpoint}/{name}").start()
        if self._pools:
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)

    def _rows(self, stream: str) -> Any:
        if callable(self._source):
            return self._source(stream)
        return self._spark.readStream.schema(SCHEMA).parquet(f"{self._source}/{stream}")

    def failures(self) -> dict[str, str]:
        """The queries that have ended by themselves, with the error."""
        ended = {name: query.exception() for name, query in self._running.items() if not query.isActive}
        return {name: str(error) for name, error in ended.items() if error is not None}

    def stop(self) -> None:
        self._stopping = True
        for query in self._running.values():
            query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def _sink(self, name: str) -> Any:
        def take(frame: Any, batch: int) -> None:
            del batch
            try:
                table = frame.toArrow()
            except Exception:
                if self._stopping:
                    # Stopped in the middle of a batch: without this, Spark prints long stack traces.
                    return
                raise
            self.triggers[name] = self.triggers.get(name, 0) + 1
            self._take(name, table)

        return take


class ComparedSystem(Protocol):
    """One side of a comparison: `Plain` or an `Engine`."""

    def start(self) -> Any: ...

    def wait(self, seconds: float) -> Any: ...

    def stop(self) -> Any: ...


@contextmanager
def running(system: ComparedSystem, feed: FeedProcess) -> Iterator[None]:
    """Runs one system while rows arrive; stops both at the end and removes the rows."""
    feed.start()
    try:
        system.start()
        yield
    finally:
        feed.stop()
        system.stop()
        feed.clean()
