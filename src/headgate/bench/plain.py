"""The peer: plain Structured Streaming, one streaming query a query, as its users write it."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pyarrow as pa

from headgate.bench.arrivals import SCHEMA


class Latencies:
    """Collects, from any thread, how old rows are when their results can be read; `arrived` is their last column."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, list[pa.Array]] = {}
        self.since = inf
        """Results before this moment do not count; none do until it is set."""

    def add(self, query: str, arrived: pa.ChunkedArray) -> None:
        now = time.time()
        if now < self.since or not len(arrived):
            return
        with self._lock:
            self._values.setdefault(query, []).append(pa.compute.subtract(pa.scalar(now), arrived.combine_chunks()))

    def of(self, queries: Sequence[str]) -> tuple[float, float, int]:
        """Mean, 99th percentile and number of results of some queries together; infinite if there were none."""
        with self._lock:
            found = [values for query in queries for values in self._values.get(query, [])]
        if not found:
            return float("inf"), float("inf"), 0
        whole = pa.chunked_array(found)
        return (
            float(pa.compute.mean(whole).as_py()),
            float(pa.compute.quantile(whole, 0.99)[0].as_py()),
            len(whole),
        )


class Plain:
    """Runs SELECTs as streaming queries of their own over folders of Parquet files. `pools`: one FAIR pool a query."""

    def __init__(
        self,
        spark: Any,
        queries: Mapping[str, str],
        folder: str,
        latencies: Latencies,
        pools: bool,
        delay: float = 1.0,
    ) -> None:
        self._spark = spark
        self._queries = dict(queries)
        self._folder = folder
        self._latencies = latencies
        self._pools = pools
        self._delay = delay
        self._checkpoint = tempfile.mkdtemp(prefix="headgate-plain-")
        self._running: list[Any] = []
        self._stopping = False
        self.triggers: dict[str, int] = {}

    def start(self, streams: Sequence[str]) -> None:
        for stream in streams:
            frame = self._spark.readStream.schema(SCHEMA).parquet(f"{self._folder}/{stream}")
            frame.withWatermark("ts", f"{self._delay} seconds").createOrReplaceTempView(stream)
        for name, select in self._queries.items():
            if self._pools:
                self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
            writer = self._spark.sql(select).writeStream.foreachBatch(self._sink(name))
            self._running.append(writer.option("checkpointLocation", f"{self._checkpoint}/{name}").start())
        if self._pools:
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)

    def stop(self) -> None:
        self._stopping = True
        for query in self._running:
            query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _sink(self, name: str) -> Any:
        def take(frame: Any, batch: int) -> None:
            del batch
            try:
                table = frame.toArrow()
            except Exception:
                if self._stopping:
                    # Torn off in the middle: Spark would print pages about it.
                    return
                raise
            self.triggers[name] = self.triggers.get(name, 0) + 1
            self._latencies.add(name, table.column("arrived"))

        return take
