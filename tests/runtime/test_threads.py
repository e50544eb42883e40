"""Threads: the same results in every mode, under every policy, and while modes and policies change."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.runtime import Folder, Limits, Network
from headgate.runtime import threads as network_threads
from tests.runtime.plans import above, both, columns, failing, graph, per_window, query, rows, source
from tests.runtime.small_network import batches, expected, results, small
from tests.runtime.ways import MODES, POLICIES
from tests.waiting import LIMIT, wait_until


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Switches threads every microsecond, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


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
    assert network.memory_bytes == 0
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


def test_rows_spill_while_other_threads_take_results_and_save(tmp_path: Path) -> None:
    s, t = source("s"), source("t")
    network = Network(
        graph(query("a", columns(above(s, 50), 2)), query("b", above(t, 50)), query("c", both(s, t))),
        "fifo:rows=15",
        mode="hybrid",
        threads=3,
        limits=Limits(memory=4000, query_memory=3000),
        store=Folder(tmp_path),
    )
    counts = dict.fromkeys("abc", 0)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            network.snapshot()
            for name in counts:
                counts[name] += sum(r.rows.num_rows for r in network.take(name))

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        for seed in range(20):
            for stream in ("s", "t"):
                network.push(stream, rows(40, seed, seed * 4.0))
            network.run(0.002)
        network.run()
    finally:
        stop.set()
        disturbing.join()
    for name in counts:
        counts[name] += sum(r.rows.num_rows for r in network.take(name))
    high = sum(int((rows(40, seed).column(2).to_numpy() > 50).sum()) for seed in range(20))
    assert counts == {"a": high, "b": high, "c": 1600}
    assert network.metrics()["memory"]["spilled_batches"] > 0
    assert network.memory_bytes == 0
    assert list(tmp_path.iterdir()) == []
    network.close()


released = threading.Event()


def slow(values: pa.Array) -> pa.Array:
    assert released.wait(LIMIT)
    return values


def test_a_slow_function_stalls_no_other_query() -> None:
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
    released.clear()
    runner.start()
    try:
        wait_until(lambda: network.metrics()["queries"]["quick"]["rows"] > 0)
        assert not network.metrics()["queries"]["slow"]["rows"]
    finally:
        released.set()
        runner.join()
    assert sum(r.rows.num_rows for r in network.take("slow")) == 10
    network.close()


@pytest.mark.parametrize("mode", ["policy", "graph", "operator", "hybrid"])
@pytest.mark.parametrize("single_thread", [False, True])
def test_a_run_that_is_interrupted_ends_after_its_grants(mode: str, single_thread: bool) -> None:
    s = source()
    network = Network(
        graph(query("good", columns(above(s, 50), 2)), query("windows", per_window(above(s, 20)))),
        mode=mode,
        threads=3,
    )
    network.single_thread = single_thread
    for seed in range(20):
        network.push("s", rows(100, seed, seed * 10.0))
    asked = []

    def interrupted() -> bool:
        asked.append(network.waiting)
        return True

    report = network.run(interrupted=interrupted)
    assert asked
    assert report.grants > 0
    assert report.waiting, "everything was done before it was asked"
    network.finish()
    assert network.run(interrupted=lambda: False).done
    values = [v for seed in range(20) for v in rows(100, seed).column(2).to_pylist()]
    assert sum(r.rows.num_rows for r in network.take("good")) == sum(v > 50 for v in values)
    network.close()


def test_close_ends_the_threads_and_a_later_run_starts_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # No thread ends by itself.
    monkeypatch.setattr(network_threads, "LINGER", 3600.0)
    network = Network(graph(*small()), mode="operator", threads=3, limits=Limits(stuck=14_400.0))
    given = list(batches())
    for part in (given[: len(given) // 2], given[len(given) // 2 :]):
        before = set(threading.enumerate())
        for stream, batch in part:
            network.push(stream, batch)
        if part[-1] is given[-1]:
            network.finish()
        assert network.run().done
        started = [thread for thread in threading.enumerate() if thread not in before]
        assert {thread.name for thread in started} == {"headgate", "headgate-stuck"}
        network.close()
        for thread in started:
            thread.join(LIMIT)
            assert not thread.is_alive(), thread.name
    assert results(network) == expected()
