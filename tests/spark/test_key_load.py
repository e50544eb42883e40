"""The rows of each key slot, counted from samples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Column
from headgate.graph.types import STRING
from headgate.spark.key_load import EVERY, SAMPLE, KeyLoad
from headgate.spark.key_slots import slots
from headgate.spark.placement import Route

COUNT = 64
ROUTE = Route.by(Column(STRING, 0))
NAME = ROUTE.local("s")


def batch(keys: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys)], names=["k"])


def slot(key: str) -> int:
    return int(slots("s", [pa.array([key])], COUNT)[0])


def test_few_rows_are_counted_exactly() -> None:
    load = KeyLoad({NAME: ROUTE}, COUNT)
    load.add(NAME, batch(["a"] * 30 + ["b"] * 10))
    load.add("other", batch(["a"]))
    [(name, counts)] = load.counts.items()
    assert name == NAME
    assert counts[slot("a")] == 30
    assert sum(counts) == 40


def test_many_rows_are_estimated_whatever_their_order() -> None:
    load = KeyLoad({NAME: ROUTE}, COUNT)
    keys = [f"k{number}" for number in range(8)]
    chance = np.random.default_rng(1)
    places = {key: slot(key) for key in (*keys, "hot")}
    wanted = np.zeros(COUNT)
    for _ in range(200):
        # Sorted within a batch, and one key as frequent as all others.
        chosen = sorted(keys[int(n)] for n in chance.integers(0, 8, SAMPLE * 2)) + ["hot"] * SAMPLE * 2
        load.add(NAME, batch(chosen))
        for key, count in Counter(chosen).items():
            wanted[places[key]] += count
    counts = np.array(load.counts[NAME])
    assert wanted.sum() - EVERY < counts.sum() <= wanted.sum()
    assert np.abs(counts / counts.sum() - wanted / wanted.sum()).max() < 0.02
