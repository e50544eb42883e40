"""The sensor network of `headgate demo`: its rows, and the functions that its queries call."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

LOCATIONS = 20
POISON = -1000
"""An impossible temperature, on which the function `fragile` raises."""


class Forest:
    """Generates rows of sensors and weather stations from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._names = pa.array([f"ridge-{n:02d}" for n in range(LOCATIONS)])
        self.poison = False
        """If set, the next batch of sensor rows contains one with the temperature POISON."""

    def sensors(self, count: int, at: float) -> pa.Table:
        """location, temperature (0 to 45, one in fifty above 35), humidity (0 to 100), smoke (0 to 1)."""
        random = self._random
        temperature = random.integers(0, 35, count)
        hot = random.random(count) < 0.02
        temperature[hot] = random.integers(36, 46, int(hot.sum()))
        if self.poison:
            self.poison = False
            temperature[0] = POISON
        return pa.table(
            {
                "ts": self._now(count),
                "location": self._names.take(pa.array(random.integers(0, LOCATIONS, count))),
                "temperature": pa.array(temperature, pa.int32()),
                "humidity": pa.array(random.integers(0, 101, count), pa.int32()),
                "smoke": random.random(count) ** 4,
            }
        )

    def weather(self, count: int, at: float) -> pa.Table:
        """location, wind (m/s), rain (mm/h)."""
        random = self._random
        return pa.table(
            {
                "ts": self._now(count),
                "location": self._names.take(pa.array(random.integers(0, LOCATIONS, count))),
                "wind": random.gamma(2.0, 4.0, count),
                "rain": np.maximum(0.0, random.normal(-1.0, 1.0, count)),
            }
        )

    def _now(self, count: int) -> pa.Array:
        micros = int(time.time() * 1_000_000) - np.arange(count)[::-1]
        return pa.array(micros, pa.timestamp("us", "UTC"))


def burst(base: float, peak: float, start: float, end: float) -> Callable[[float], float]:
    """A rate of `base`, but `peak` from `start` to `end` seconds."""
    return lambda t: peak if start <= t < end else base


_STEPS = 400


def spread(temperature: pa.Array, humidity: pa.Array, scenario: pa.Array) -> pa.Array:
    """Estimates how far a fire would spread from each reading. Costly: it simulates many steps."""
    heat = np.nan_to_num(np.asarray(temperature.to_numpy(zero_copy_only=False), dtype=float))
    damp = np.nan_to_num(np.asarray(humidity.to_numpy(zero_copy_only=False), dtype=float)) / 100.0
    wind = np.asarray(scenario.to_numpy(zero_copy_only=False), dtype=float)
    front = np.zeros(len(heat))
    for step in range(_STEPS):
        front += np.maximum(0.0, np.sin(step * 0.1 + wind) + heat / 45.0 - damp) * np.exp(-front / 50.0)
    return pa.array(front)


def fragile(temperature: pa.Array) -> pa.Array:
    """A user function with a bug: it raises on an unexpected reading."""
    values = temperature.to_numpy(zero_copy_only=False)
    if (values == POISON).any():
        raise ValueError(f"temperature {POISON} is below absolute zero")
    return pa.array(np.asarray(values, dtype=float) * 1.8 + 32.0)


def seconds_per_row(rows: int = 4000) -> float:
    """Cost of `spread` per row on this machine."""
    readings = Forest(0).sensors(rows, 0.0)
    columns = [readings.column(name).combine_chunks() for name in ("temperature", "humidity")]
    scenario = pa.array(np.zeros(rows))
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        spread(columns[0], columns[1], scenario)
        best = min(best, time.perf_counter() - began)
    return best / rows
