"""Rows for benches, and a separate process that writes them into folders, so that feeding disturbs neither side."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event

import numpy as np
import pyarrow as pa

from headgate.feeder.folder import write_file

SCHEMA = "ts TIMESTAMP, location STRING, temperature INT, humidity INT, arrived DOUBLE"
"""The columns of every stream of the benches; `arrived` is the time (s) from which the row can be read."""


def rows(count: int, random: np.random.Generator, now: float) -> pa.Table:
    """Rows as in 004 Table 1: temperature 0 to 40, humidity 0 to 100, 20 locations."""
    micros = int(now * 1_000_000) + np.arange(count)
    return pa.table(
        {
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "location": pa.array([f"location-{n:03d}" for n in random.integers(0, 20, count)]),
            "temperature": pa.array(random.integers(0, 41, count), pa.int32()),
            "humidity": pa.array(random.integers(0, 101, count), pa.int32()),
            "arrived": pa.array(np.full(count, now)),
        }
    )


class FeedProcess:
    """Writes `rate` rows per second into one folder per stream until stopped."""

    def __init__(self, streams: Sequence[str], rate: float, every: float = 1.0, seed: int = 1) -> None:
        self.folder = tempfile.mkdtemp(prefix="headgate-bench-")
        self.streams = tuple(streams)
        self._stop = multiprocessing.get_context("spawn").Event()
        for stream in streams:
            os.makedirs(f"{self.folder}/{stream}")
            # A first file, so that both sides find a schema and can start before rows arrive.
            write(f"{self.folder}/{stream}", 0, rows(10, np.random.default_rng(seed), time.time()))
        self._process = multiprocessing.get_context("spawn").Process(
            target=_feed, args=(self.folder, self.streams, rate, every, seed, self._stop), daemon=True
        )

    def start(self) -> None:
        self._process.start()

    @property
    def pid(self) -> int:
        """The id of the process, once started."""
        return self._process.pid or 0

    def stop(self) -> None:
        """Stops writing."""
        self._stop.set()
        if self._process.is_alive():
            self._process.join()

    def clean(self) -> None:
        """Removes the folder; no query may read it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write(folder: str, number: int, table: pa.Table) -> None:
    """Writes an uncompressed file, which appears complete."""
    write_file(folder, number, table, "none")


def _feed(folder: str, streams: Sequence[str], rate: float, every: float, seed: int, stop: Event) -> None:
    random = np.random.default_rng(seed)
    number = 1
    due = time.time()
    while not stop.is_set():
        for place, stream in enumerate(streams):
            # The writes of the streams are spread over the interval, as with separate senders.
            wait = due + every * place / len(streams) - time.time()
            if wait > 0:
                time.sleep(wait)
            write(f"{folder}/{stream}", number, rows(int(rate * every), random, time.time()))
        number += 1
        due = max(due + every, time.time() - every)
