"""A query that fails, hangs or takes too much memory affects no other."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

from headgate.runtime import Limits, Network
from headgate.runtime.limits import text_of
from tests.runtime.plans import CRITICAL, above, columns, failing, graph, per_window, query, rows, source, table
from tests.waiting import LIMIT, wait_until

CALLS = [0]


def broken(values: pa.Array) -> pa.Array:
    CALLS[0] += 1
    if CALLS[0] > 1:
        raise RuntimeError("the lookup service is down")
    return values


def place(function: object) -> str:
    return f"{__name__}:{getattr(function, '__name__', '')}"


FORKING = """
import os
from headgate.runtime.flight import Unrecorded, recorded

for result in ("return", "raise"):
    def function():
        child = os.fork()
        if result == "raise":
            raise ValueError(child)
        return child
    try:
        child = recorded(Unrecorded(), "ff", 1.0, function)()
    except ValueError as error:
        child = error.args[0]
    if child:
        os.waitpid(child, 0)
    print("back", flush=True)
"""


def test_the_copy_of_a_process_that_a_function_forks_does_not_run_the_network_too() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path)}
    found = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout.split() == ["back", "back"], found.stderr


def test_an_error_without_a_text_has_a_line() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    assert text_of(Unprintable()) == "Unprintable: its text cannot be read (SystemExit)"


@pytest.mark.parametrize("mode", ["policy", "direct", "operator", "hybrid"])
@pytest.mark.parametrize("policy", ["fifo", "chain", "di:sources=queued"])
def test_a_query_that_fails_affects_no_other(policy: str, mode: str) -> None:
    CALLS[0] = 0
    s = source()
    shared = above(s, 20)
    risky = failing(shared, place(broken))
    network = Network(
        graph(
            query("good", columns(above(shared, 50), 2), CRITICAL),
            query("bad", risky),
            query("worse", above(risky, 1, 0)),
            query("windows", per_window(shared)),
        ),
        policy,
        mode=mode,
        threads=3,
    )
    for seed in range(4):
        network.push("s", rows(100, seed, seed * 10.0))
        network.run()
    network.finish()
    network.run()
    assert set(network.queries) == {"good", "windows"}
    assert set(network.failures) == {"bad", "worse"}
    said = str(network.failures["bad"])
    assert "query bad failed in project" in said
    assert "the lookup service is down" in said
    values = [v for seed in range(4) for v in rows(100, seed).column(2).to_pylist()]
    assert sum(r.rows.num_rows for r in network.take("good")) == sum(v > 50 for v in values)
    windows = table([r.rows for r in network.take("windows")])
    assert sum(row[2] for row in windows) == sum(v > 20 for v in values)  # type: ignore[misc]
    # Results from before the failure can still be taken.
    taken = sum(r.rows.num_rows for r in network.take("bad"))
    assert 0 < taken <= sum(v > 20 for v in rows(100, 0).column(2).to_pylist())
    figures = network.metrics()
    assert figures["queries"]["worse"]["state"] == "failed"
    assert all("bad" not in operator["queries"] for operator in figures["operators"])
    network.take("worse")
    assert network.memory_bytes == 0
    network.close()


def test_a_query_that_failed_may_be_added_again() -> None:
    CALLS[0] = 1
    s = source()
    network = Network(graph(query("bad", failing(s, place(broken))), query("good", s)))
    network.push("s", rows(10))
    assert network.run().failed == ("bad",)
    CALLS[0] = 0
    network.add(query("bad", failing(s, place(broken))))
    network.push("s", rows(10, 1, 10.0))
    assert network.run().failed == ()
    assert sum(r.rows.num_rows for r in network.take("bad")) == 10
    assert not network.failures


released = threading.Event()


def endless(values: pa.Array) -> pa.Array:
    assert released.wait(LIMIT)
    return values


def test_a_function_that_hangs_is_reported_and_its_thread_replaced(caplog: pytest.LogCaptureFixture) -> None:
    s = source()
    shared = graph(
        query("slow", failing(s, place(endless))),
        query("slower", failing(above(s, -1), place(endless))),
        query("quick", columns(above(s, 50), 2)),
    )
    # Two threads, both soon inside a hanging function: only a third one can run the quick query.
    network = Network(shared, "ots", threads=2, limits=Limits(stuck=0.1))
    network.push("s", rows(10))
    released.clear()
    with caplog.at_level(logging.WARNING, "headgate.runtime"):
        runner = threading.Thread(target=network.run)
        runner.start()
        try:
            wait_until(lambda: network.metrics()["queries"]["quick"]["rows"] > 0)
            wait_until(lambda: any(running["stuck"] for running in network.metrics()["running"]))
            wait_until(lambda: "is not done" in caplog.text)
        finally:
            released.set()
            runner.join()
    assert any("slow" in record.getMessage() and "is not done" in record.getMessage() for record in caplog.records)
    assert max(unit["slowest"] for unit in network.metrics()["units"]) > 0.1
    network.close()


def test_a_query_above_its_limit_spills_its_own_rows() -> None:
    s, t = source("s"), source("t")
    network = Network(
        graph(query("big", columns(above(s, -1), 2)), query("small", columns(above(t, -1), 2))),
        "fifo",
        limits=Limits(query_memory=20_000),
    )
    network.push("t", rows(100))
    for seed in range(10):
        network.push("s", rows(1000, seed, seed * 100.0))
    figures = network.metrics()
    assert figures["queries"]["big"]["waiting_bytes"] <= 20_000
    assert figures["queries"]["small"]["waiting_bytes"] > 2000
    assert figures["memory"]["spilled_batches"] > 0
    network.run()
    assert sum(r.rows.num_rows for r in network.take("big")) == 10_000
    assert sum(r.rows.num_rows for r in network.take("small")) == 100


def test_a_query_above_its_ceiling_fails_and_says_what_it_took() -> None:
    s = source()
    network = Network(
        graph(query("keys", per_window(s, 10_000)), query("fine", columns(above(s, 99), 2))),
        "fifo",
        limits=Limits(query_ceiling=100_000),
    )
    for seed in range(100):
        network.push("s", rows(500, seed, seed * 50.0, keys=1_000_000))
        network.run()
        network.take("fine")
    assert set(network.failures) == {"keys"}
    assert "more than the ceiling of 100,000" in str(network.failures["keys"])
    assert set(network.queries) == {"fine"}


def test_the_memory_of_the_queries_adds_up_to_the_memory_in_use() -> None:
    s = source()
    network = Network(
        graph(query("a", columns(above(s, 10), 2)), query("b", above(s, 20)), query("c", s)), "fifo:rows=7"
    )
    for seed in range(5):
        network.push("s", rows(100, seed, seed * 10.0))
        network.run(0.0)
    figures = network.metrics()
    assert network.memory_bytes > 0
    assert sum(q["waiting_bytes"] for q in figures["queries"].values()) == pytest.approx(network.memory_bytes, abs=3)
