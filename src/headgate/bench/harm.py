"""Users' functions that do harm on a negative value; for the bench `isolation`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HANGING = "HEADGATE_BENCH_HANGING"
"""The environment variable with the file that `hang` creates before it hangs."""


def _harmful(values: pa.Array) -> bool:
    return bool((pc.min(values).as_py() or 0) < 0)


def hang(values: pa.Array) -> pa.Array:
    """Never returns."""
    if _harmful(values) and HANGING in os.environ:
        Path(os.environ[HANGING]).touch()
    while _harmful(values):
        pass
    return values


def leave(values: pa.Array) -> pa.Array:
    """Ends the process."""
    if _harmful(values):
        os._exit(3)
    return values


def crash(values: pa.Array) -> pa.Array:
    """Crashes the process as a wrong C library does."""
    if _harmful(values):
        ctypes.string_at(0)
    return values


def swallow(values: pa.Array) -> pa.Array:
    """Takes 6 GB of memory, and keeps them."""
    if _harmful(values):
        taken = [np.ones(50_000_000) for _ in range(15)]
        while taken:
            pass
    return values


HARMS: Mapping[str, Callable[[pa.Array], pa.Array]] = {each.__name__: each for each in (hang, leave, crash, swallow)}
