"""Refreshes static tables: reads them again after their interval or when their files or version have changed.

A new version is part of the plan from some epoch on: every row that reaches the join in that epoch or later sees it. A
table that cannot be read keeps its last version; the error is shown until a later attempt succeeds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Table

LOOK = 1.0
"""Seconds between two checks of the files of tables that are refreshed on change."""

CLOSE_TIMEOUT = 2.0
"""Seconds that `close` waits for a table that is being read."""


@dataclass
class _Watched:
    """When a table was read, and what its files were then."""

    table: Table
    read_at: float
    files: object
    version: int = 1
    error: str | None = None


class TableRefresh:
    """Refreshes tables on a separate thread, from `start` until `close`.

    - `read` reads a table; its error is kept and shown
    - `changed` is called with the name and the rows of a table whose rows have changed
    - `spark` lists files that are not on this machine, and those of patterns
    - `versions` gives a function that returns another value when the rows of a table have changed; None if its files
      tell
    """

    def __init__(
        self,
        spark: Any,
        read: Callable[[Table], pa.Table],
        changed: Callable[[str, pa.Table], None],
        versions: Callable[[Table], Callable[[], object] | None] = lambda _: None,
        look: float = LOOK,
    ) -> None:
        self._spark = spark
        self._read = read
        self._changed = changed
        self._versions = versions
        self._version_of: dict[str, Callable[[], object] | None] = {}
        self._look = look
        self._watched: dict[str, _Watched] = {}
        self._rows: dict[str, pa.Table] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, table: Table, rows: pa.Table, files: object) -> None:
        """Refreshes a table as declared; `rows` are those read now, `files` the `fingerprint` taken before."""
        if table.refresh is None and not table.on_change:
            return
        self._watched[table.name] = _Watched(table, time.monotonic(), files)
        self._rows[table.name] = rows
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headgate-tables", daemon=True)
            self._thread.start()

    def fingerprint(self, table: Table) -> object:
        """The version of a table, or its files with their sizes and times; None if they cannot be listed."""
        if not table.on_change:
            return None
        try:
            if table.name not in self._version_of:
                self._version_of[table.name] = self._versions(table)
            version = self._version_of[table.name]
            if version is not None:
                return version()
            path = table.options["path"]
            local = "://" not in path and not any(sign in path for sign in "*?[]{}\\")
            return _local_files(path) if local else self._other_files(path)
        except Exception:
            # A file vanished while it was listed: the next check finds a difference.
            return None

    def report(self) -> dict[str, dict[str, Any]]:
        """By table: the number of versions so far, its rows, and the error of the last refresh, if it failed."""
        return {
            name: {"version": each.version, "rows": self._rows[name].num_rows, "error": each.error}
            for name, each in list(self._watched.items())
        }

    def close(self) -> None:
        """No table is read from now on; a table that is being read is abandoned after a while."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        while not self._closed.wait(self._pause()):
            for watched in list(self._watched.values()):
                self._check(watched)

    def _pause(self) -> float:
        """Seconds until the next check."""
        now = time.monotonic()
        tables = list(self._watched.values())
        waits = [each.read_at + each.table.refresh / 1e6 - now for each in tables if each.table.refresh is not None]
        if any(each.table.on_change for each in tables):
            waits.append(self._look)
        return max(0.05, min(waits))

    def _check(self, watched: _Watched) -> None:
        table, now = watched.table, time.monotonic()
        due = table.refresh is not None and now >= watched.read_at + table.refresh / 1e6
        files = self.fingerprint(table)
        if not due and (not table.on_change or files == watched.files):
            return
        watched.read_at = now
        try:
            rows = self._read(table)
            if not rows.equals(self._rows[table.name]):
                self._changed(table.name, rows)
                self._rows[table.name] = rows
                watched.version += 1
            watched.error = None
            watched.files = files
        except Exception as error:
            watched.error = str(error)

    def _other_files(self, path: str) -> object:
        jvm = self._spark.sparkContext._jvm
        pattern = jvm.org.apache.hadoop.fs.Path(path)
        system = pattern.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        found = []
        for place in system.globStatus(pattern) or ():
            listed = system.listFiles(place.getPath(), True)
            while listed.hasNext():
                file = listed.next()
                found.append((file.getPath().toString(), file.getLen(), file.getModificationTime()))
        return sorted(found)


def _local_files(path: str) -> object:
    """A file, or all files below a folder."""
    names = [path] if os.path.isfile(path) else [os.path.join(at, n) for at, _, some in os.walk(path) for n in some]
    stats = [(name, os.stat(name)) for name in sorted(names)]
    return [(name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats]
