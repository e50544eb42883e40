"""Feeds a folder with small Parquet files, for a file source to read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class FolderFeeder:
    """Writes rows at a varying rate, on its own thread.

    `rate(t)` returns the rows per second `t` seconds after the start; `make(count, t)` generates `count` rows.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        rate: Callable[[float], float],
        make: Callable[[int, float], pa.Table],
        every: float = 0.1,
    ) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._rate = rate
        self._make = make
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headgate-feeder", daemon=True)
        self.rows = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops after the current file; does nothing if it was never started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        began = last = time.monotonic()
        owed = 0.0
        number = 0
        while not self._stop.wait(self._every):
            now = time.monotonic()
            owed += self._rate(now - began) * (now - last)
            last = now
            count = int(owed)
            if not count:
                continue
            owed -= count
            write_file(self._folder, number, self._make(count, now - began))
            number += 1
            self.rows += count


def write_file(folder: str | os.PathLike[str], number: int, table: pa.Table, compression: str = "snappy") -> None:
    """Writes a Parquet file that appears complete: it is written under a hidden name and renamed."""
    hidden = Path(folder) / f".{number:09d}.parquet"
    pq.write_table(table, hidden, compression=compression)
    hidden.rename(Path(folder) / f"{number:09d}.parquet")
