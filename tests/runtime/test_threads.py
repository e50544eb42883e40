"""Threads: the same results in every mode, with any policy, and while modes and policies change under the rows."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headgate.graph.queries import Query
from headgate.operators.runner import Runner
from headgate.runtime import Network
from tests.runtime.plans import CRITICAL, above, both, columns, failing, graph, per_window, query, rows, source, table
from tests.runtime.ways import MODES, POLICIES


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Threads change after every microsecond, so that what can go wrong between two does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def small() -> tuple[Query, ...]:
    s, t = source("s", 2_000_000), source("t")
    shared = above(s, 30)
    return (
        query("all", s),
        query("high", columns(above(shared, 60), 1, 2), CRITICAL),
        query("windows", per_window(shared)),
        query("both", per_window(both(shared, above(t, 50)))),
    )


def batches() -> list[tuple[str, pa.RecordBatch]]:
    return [(name, rows(150, seed, seed * 15.0)) for seed in range(6) for name in ("s", "t")]


def expected() -> dict[str, list[tuple[object, ...]]]:
    runner = Runner(graph(*small()))
    for stream, batch in batches():
        runner.push(stream, batch)
    runner.finish()
    return {q.name: table(runner.results(q.name).to_batches()) for q in small()}


def results(network: Network) -> dict[str, list[tuple[object, ...]]]:
    return {name: table([r.rows for r in network.take(name)]) for name in network.queries}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_mode_under_every_policy(mode: str, policy: str) -> None:
    network = Network(graph(*small()), policy, mode=mode, threads=4)
    for number, (stream, batch) in enumerate(batches()):
        network.push(stream, batch)
        if number % 4 == 0:
            network.run()
    network.finish()
    assert network.run().done
    assert results(network) == expected()
    assert network.held_bytes == 0
    network.close()


@pytest.mark.parametrize("seed", range(4))
def test_modes_and_policies_change_while_rows_flow(seed: int) -> None:
    network = Network(graph(*small()), "fifo:rows=10", mode="operator", threads=4)
    stop = threading.Event()

    def change() -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            if chance.random() < 0.5:
                network.mode = chance.choice(MODES)
            else:
                network.policy = chance.choice(POLICIES)
            time.sleep(0.002)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for stream, batch in batches():
            network.push(stream, batch)
            network.run(0.01)
        network.finish()
        while not network.run(1.0).done:
            pass
    finally:
        stop.set()
        changing.join()
    network.run()
    assert results(network) == expected()
    network.close()


def test_rows_come_from_several_threads() -> None:
    s, t = source("s"), source("t")
    network = Network(
        graph(query("a", columns(above(s, 50), 2)), query("b", columns(above(t, 50), 2)), query("c", both(s, t))),
        "rr",
        mode="hybrid",
        threads=3,
    )

    def feed(stream: str) -> None:
        for seed in range(30):
            network.push(stream, rows(40, seed, seed * 4.0))

    feeders = [threading.Thread(target=feed, args=(stream,)) for stream in ("s", "t")]
    for feeder in feeders:
        feeder.start()
    while any(feeder.is_alive() for feeder in feeders):
        network.run(0.05)
    for feeder in feeders:
        feeder.join()
    network.run()
    high = sum(int((rows(40, seed).column(2).to_numpy() > 50).sum()) for seed in range(30))
    found = results(network)
    assert (len(found["a"]), len(found["b"]), len(found["c"])) == (high, high, 2400)
    assert network.waiting == 0
    network.close()


def slow(values: pa.Array) -> pa.Array:
    time.sleep(0.5)
    return values


def test_a_slow_function_stalls_nobody_else() -> None:
    s = source()
    place = f"{slow.__module__}:slow"
    network = Network(
        graph(query("slow", failing(s, place)), query("quick", columns(above(s, 50), 2))),
        "fifo",
        mode="hybrid",
        threads=2,
    )
    network.push("s", rows(10))
    runner = threading.Thread(target=network.run)
    began = time.perf_counter()
    runner.start()
    while not network.metrics()["queries"]["quick"]["rows"]:
        time.sleep(0.005)
    quick = time.perf_counter() - began
    runner.join()
    assert quick < 0.3
    assert sum(r.rows.num_rows for r in network.take("slow")) == 10
    network.close()
