"""Rows for benches, and a separate process that writes them into folders, so that feeding disturbs neither side."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, Feed
from headgate.feeder.feeder import Feeder
from headgate.feeder.folder import FolderTarget, write_file
from headgate.feeder.process import FeederProcess
from headgate.feeder.workloads.readings import Readings
from headgate.simulation.arrivals import Constant

SCHEMA = "ts TIMESTAMP, location STRING, temperature INT, humidity INT, arrived DOUBLE"
"""The columns of every stream of the benches; `arrived` is the time (s) from which the row can be read."""


def rows(count: int, random: np.random.Generator, now: float) -> pa.Table:
    """Rows as in 004 Table 1, that arrive at one time."""
    ts = pa.array(int(now * 1_000_000) + np.arange(count)).cast(EVENT_TIME)
    maker = Readings()
    columns = maker.rows(
        ArrivingRows(0, np.zeros(count), ts), ColumnGenerators(int(random.integers(1 << 62)), "readings")
    )
    return pa.Table.from_arrays(list(columns), schema=maker.schema).append_column(
        "arrived", pa.array(np.full(count, now))
    )


class FeedProcess:
    """Writes `rate` rows per second into one folder per stream until stopped, a file every `every` seconds."""

    def __init__(self, streams: Sequence[str], rate: float, every: float = 1.0, seed: int = 1) -> None:
        self.folder = tempfile.mkdtemp(prefix="headgate-bench-")
        self.streams = tuple(streams)
        for stream in streams:
            os.makedirs(f"{self.folder}/{stream}")
            # A first file, so that both sides find a schema and can start before rows arrive.
            write(f"{self.folder}/{stream}", 0, rows(10, np.random.default_rng(seed), time.time()))
        self._process = FeederProcess(_feeder, self.folder, self.streams, rate, every, seed)

    def start(self) -> None:
        self._process.start()

    @property
    def pid(self) -> int:
        """The id of the process, once started."""
        return self._process.pid

    def stop(self) -> None:
        """Stops writing."""
        self._process.stop()

    def clean(self) -> None:
        """Removes the folder; no query may read it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write(folder: str, number: int, table: pa.Table) -> None:
    """Writes an uncompressed file, which appears complete."""
    write_file(folder, number, table)


def _feeder(folder: str, streams: Sequence[str], rate: float, every: float, seed: int) -> Feeder:
    feeds = [Feed(stream, Readings(), Constant(rate)) for stream in streams]
    return Feeder(FolderTarget(folder), feeds, seed=seed, every=every, stamp="arrived")
