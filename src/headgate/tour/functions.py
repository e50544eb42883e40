"""The Python functions that queries of the tour call, over Arrow arrays, on both sides."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pyarrow as pa

POISON = -1000
"""An impossible temperature, on which `fahrenheit` raises."""
_STEPS, _WINDS = 100, np.linspace(0.0, 3.0, 96)
_PART = 128


def spread(temperature: pa.Array, humidity: pa.Array, scenario: pa.Array) -> pa.Array:
    """Estimates how far a fire would spread from each reading. Costly: it simulates many winds in many steps."""
    heat = np.nan_to_num(np.asarray(temperature.to_numpy(zero_copy_only=False), dtype=float))
    damp = np.nan_to_num(np.asarray(humidity.to_numpy(zero_copy_only=False), dtype=float)) / 100.0
    force = np.asarray(scenario.to_numpy(zero_copy_only=False), dtype=float)
    fuel = heat / 45.0 - damp + force
    # In parts that fit into the processor's cache, so that a row costs the same in large batches.
    parts = [_burnt(fuel[first : first + _PART]) for first in range(0, len(fuel), _PART)]
    return pa.array(np.concatenate(parts) if parts else fuel)


def _burnt(fuel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    front = np.zeros((len(fuel), len(_WINDS)))
    for step in range(_STEPS):
        front += np.maximum(0.0, np.sin(step * 0.1 + _WINDS) + fuel[:, None]) * np.exp(-front / 50.0)
    result: npt.NDArray[np.float64] = front.mean(axis=1)
    return result


def fahrenheit(temperature: pa.Array) -> pa.Array:
    """A user function with a bug: it raises on an unexpected reading."""
    values = temperature.to_numpy(zero_copy_only=False)
    if (values == POISON).any():
        raise ValueError(f"temperature {POISON} is below absolute zero")
    return pa.array(np.asarray(values, dtype=float) * 1.8 + 32.0)


def seconds_per_row(rows: int = 1000) -> float:
    """Cost of `spread` per row on this machine."""
    random = np.random.default_rng(0)
    columns = [pa.array(random.integers(0, most, rows)) for most in (45, 100)]
    scenario = pa.array(np.zeros(rows))
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        spread(columns[0], columns[1], scenario)
        best = min(best, time.perf_counter() - began)
    return best / rows
