"""One side of one workload of the Kafka bench: its latencies, what it owes, and how fast it processes a burst."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np

from headgate.bench.kafka_owed import CollectedRows, owed, rows_of, sent_rows
from headgate.bench.kafka_sides import KafkaEngine, KafkaExpert, KafkaPlain, KafkaWork, TopicNames
from headgate.bench.kafka_topics import OutputTopics, make_topics
from headgate.bench.workload import CLASSES
from headgate.feeder.feed import Feed
from headgate.feeder.feeder import Feeder, Target
from headgate.feeder.kafka import KafkaTarget
from headgate.feeder.process import FeederProcess
from headgate.feeder.workloads.readings import Readings
from headgate.simulation.arrivals import Constant
from headgate.spark.packages import AVRO, KAFKA, at_start
from headgate.spark.session import local_session

EVERY = 0.05
"""Seconds between two batches of the producer."""
_SETTINGS = {"spark.driver.memory": "2g", "spark.sql.streaming.stopTimeout": "10s"}
"""For all sides: 200 streaming queries need more memory than Spark's default, and their triggers may take minutes."""
_BURST_SECONDS = 1.0
_LONGEST = 60.0
"""Seconds that a side has to write what it owes before the burst, and for the burst."""


class KafkaRun:
    """A side (`headgate`, `plain` or `expert`) of one workload, on separate topics. `rate`: rows/s of each stream."""

    def __init__(self, side: str, work: KafkaWork, place: TopicNames, rate: float) -> None:
        self._side = side
        self._work = work
        self._place = place
        self._rate = rate
        # A burst closes no windows of its own: the end of a watermark's delay comes after it.
        self._counted = [name for name in work.queries if name not in work.windowed]
        self._outputs = OutputTopics(place, list(work.queries))

    def run(self, warm: float, seconds: float, burst: float) -> dict[str, Any]:
        """The figures of the side, with a burst of so many rows (0: none).

        - by class, latencies (s) of the records written in the measured time; `unwritten`: the share of the records due
          in this time that were not written at its end
        - `burst_rows_per_s`, from the first row sent until the last record owed; NaN if the side has not written all of
          them after 60 s. `burst_written`: the share of these records that it has
        """
        work, place = self._work, self._place
        make_topics(place, work)
        feed = FeederProcess(_feeder, place, tuple(work.streams), self._rate, inf)
        burst_rate = burst / len(work.streams) / _BURST_SECONDS
        burst_feed = FeederProcess(_feeder, place, tuple(work.streams), burst_rate, _BURST_SECONDS)
        feed.prepare()
        spark = local_session(f"headgate-bench-{self._side}", {**at_start({KAFKA, AVRO}), **_SETTINGS})
        try:
            system = self._system(spark)
            feed.start()
            try:
                system.start()
                system.wait(warm)
                since = time.time()
                system.wait(seconds)
                until = time.time()
                feed.stop()
                rows = sent_rows(place, work)
                found = self._latencies(owed(spark, work, rows, since, until), since, until)
                if burst:
                    before = self._total(owed(spark, work, rows))
                    target = CollectedRows()
                    feeder = _feeding(target, work.streams, burst_rate, _BURST_SECONDS)
                    rows = rows_of(feeder, target, _BURST_SECONDS)
                    found |= self._burst(burst_feed, system, before, self._total(owed(spark, work, rows)))
            finally:
                feed.stop()
                burst_feed.stop()
                system.stop()
        finally:
            spark.stop()
        return found

    def _total(self, counts: dict[str, int]) -> int:
        return sum(counts[name] for name in self._counted)

    def _system(self, spark: Any) -> KafkaEngine | KafkaPlain | KafkaExpert:
        if self._side == "headgate":
            return KafkaEngine(spark, self._work, self._place, CLASSES)
        return (KafkaPlain if self._side == "plain" else KafkaExpert)(spark, self._work, self._place)

    def _latencies(self, counts: dict[str, int], since: float, until: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        written = 0
        for cls in dict.fromkeys(self._work.classes.values()):
            names = [name for name, of in self._work.classes.items() if of == cls]
            records = np.array(list(self._outputs.of(names).records(since))).reshape(-1, 2)
            records = records[records[:, 0] < until]
            ages = records[:, 0] - records[:, 1]
            written += len(ages)
            p50, p99 = np.quantile(ages, [0.5, 0.99]) if len(ages) else (inf, inf)
            expected = sum(counts[name] for name in names)
            unwritten = 1 - np.count_nonzero(records[:, 1] >= since) / expected if expected else nan
            found |= {f"{cls}_p50_s": float(p50), f"{cls}_p99_s": float(p99), f"{cls}_unwritten": float(unwritten)}
        return {**found, "records_per_s": written / (until - since)}

    def _burst(
        self, feed: FeederProcess, system: KafkaEngine | KafkaPlain | KafkaExpert, before: int, expected: int
    ) -> dict[str, Any]:
        """`before`: the records that are owed without the burst, `expected`: those that it adds."""
        outputs = self._outputs.of(self._counted)
        feed.prepare()
        if not outputs.wait_for(before, _LONGEST, system.check):
            # What is written during the burst would belong to earlier rows.
            return {"burst_rows_per_s": nan, "burst_written": 0.0}
        began = time.time()
        feed.start()
        done = outputs.wait_for(before + expected, _LONGEST, system.check)
        written = outputs.count() - before
        streams = {stream for stream in self._work.streams if self._read_by_counted(stream)}
        sent = sum(each.rows for name, each in feed.progress().streams.items() if name in streams)
        rate = sent / (outputs.last() - began) if done else nan
        return {"burst_rows_per_s": float(rate), "burst_written": written / expected}

    def _read_by_counted(self, stream: str) -> bool:
        """Whether a query whose records are counted reads the stream."""
        return any(stream in self._work.queries[name].replace("(", " ").split() for name in self._counted)


def _feeder(place: TopicNames, streams: Sequence[str], rate: float, seconds: float) -> Feeder:
    return _feeding(KafkaTarget(place.servers, place.source("")), streams, rate, seconds)


def _feeding(target: Target, streams: Sequence[str], rate: float, seconds: float) -> Feeder:
    feeds = [Feed(stream, Readings(), Constant(rate)) for stream in streams]
    return Feeder(target, feeds, seed=1, every=EVERY, seconds=seconds, stamp="arrived")
