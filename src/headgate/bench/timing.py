"""Conditions for timing: benches of single-threaded code keep pyarrow from using other threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def one_arrow_thread() -> Iterator[None]:
    """Limits pyarrow's thread pool to one thread inside this context."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)
