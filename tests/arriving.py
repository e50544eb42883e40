"""Files that arrive in a folder while a stream reads it: each appears whole, by a rename."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def arrive_parquet(file: Path, rows: pa.Table, modified: float | None = None) -> None:
    """A Parquet file; `modified` is its time of change, which decides in which order Spark reads files."""
    _arrive(file, lambda hidden: pq.write_table(rows, hidden), modified)


def arrive_json(file: Path, rows: Iterable[Any]) -> None:
    """A file of one JSON object a line; a text among the rows becomes a line as it is."""
    lines = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    _arrive(file, lambda hidden: hidden.write_text(lines))


def _arrive(file: Path, write: Callable[[Path], object], modified: float | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Spark does not see files whose names start with a dot.
    hidden = file.with_name(f".{file.name}")
    write(hidden)
    if modified is not None:
        os.utime(hidden, (modified, modified))
    hidden.rename(file)


@contextmanager
def sending(send: Callable[[], object]) -> Iterator[None]:
    """Calls `send` on a thread of its own, ten times a second, at least once, until the end of the block."""
    over = threading.Event()

    def work() -> None:
        send()
        while not over.wait(0.1):
            send()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
