"""Paused queries: nothing is put out meanwhile, kept rows are answered exactly once, dropped rows are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.queries import Pause
from headgate.operators.runner import Runner
from headgate.runtime import Network
from headgate.runtime.limits import Limits
from headgate.runtime.store import Folder
from tests.runtime.plans import above, both, columns, graph, per_window, query, rows, source, table
from tests.runtime.small_network import batches, expected, results, small

POLICIES = ["cqc", "chain", "segment", "path", "hmts", "di", "chart-memory", "cqc:inner=amos"]


def pause(network: Network, name: str, how: Pause) -> None:
    network.alter(replace(network.queries[name], pause=how))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["all", "high", "windows", "both"])
def test_kept_rows_are_answered_after_the_pause(policy: str, name: str) -> None:
    network = Network(graph(*small()), policy)
    before = None
    for number, (stream, batch) in enumerate(batches()):
        if number == 3:
            pause(network, name, "keep")
            network.run()
            before = network.metrics()["queries"][name]["rows"]
        network.push(stream, batch)
        network.run() if number % 2 else network.step()
        if number == 8:
            network.run()
            assert network.metrics()["queries"][name]["rows"] == before, "a paused query makes no results"
            assert network.waiting == 0, "what a paused query keeps is no reason to go on"
            assert network.metrics()["queries"][name]["queue_rows"] > 0
            assert network.metrics()["queries"][name]["state"] == "paused"
            pause(network, name, "")
    network.finish()
    network.run()
    assert results(network) == expected()


@pytest.mark.parametrize("policy", POLICIES)
def test_dropped_rows_are_not_seen_and_counted(policy: str) -> None:
    """A query with a pause answers as one that never got the rows of that time; others are not touched."""
    network = Network(graph(*small()), policy)
    runner = Runner(graph(*small()))
    lost = 0
    for number, (stream, batch) in enumerate(batches()):
        if number == 4:
            network.run()
            pause(network, "all", "drop")
            pause(network, "windows", "drop")
        if number == 7:
            # Rows are dropped where they reach the operators of the paused query alone.
            network.run()
            pause(network, "all", "")
            pause(network, "windows", "")
        network.push(stream, batch)
        network.step()
        if 4 <= number < 7 and stream == "s":
            lost += batch.num_rows
            # The watermark is told, the rows are not.
            highest = batch.slice(batch.num_rows - 1)
            runner.push(stream, highest.set_column(2, "v", pa.array([-1.0])))
        else:
            runner.push(stream, batch)
    network.finish()
    network.run()
    runner.finish()
    found = results(network)
    assert found["windows"] == table(runner.results("windows").to_batches())
    assert len(found["all"]) == len(expected()["all"]) - lost
    assert (found["high"], found["both"]) == (expected()["high"], expected()["both"])
    assert network.metrics()["queries"]["all"]["dropped"] == lost
    assert network.metrics()["queries"]["high"]["dropped"] == 0


def test_a_result_that_a_running_query_shares_waits_in_the_outbox() -> None:
    plan = above(source(), 50)
    network = Network(graph(query("a", plan), query("b", plan), query("c", plan)))
    pause(network, "b", "keep")
    pause(network, "c", "drop")
    network.push("s", rows(100))
    network.run()
    made = len(table([r.rows for r in network.take("a")]))
    figures = network.metrics()["queries"]
    assert (figures["b"]["unpublished"], figures["c"]["dropped"]) == (made, made)
    assert network.take("c") == []
    assert len(table([r.rows for r in network.take("b")])) == made


def test_waiting_rows_are_dropped_with_the_pause_and_free_their_memory() -> None:
    network = Network(graph(query("a", per_window(source()))))
    network.push("s", rows(1000))
    assert network.memory_bytes > 0
    pause(network, "a", "drop")
    assert network.memory_bytes == 0
    assert network.metrics()["queries"]["a"]["dropped"] == 1000


def test_kept_rows_are_spilled_and_survive_a_restart(tmp_path: Path) -> None:
    """The memory of a paused query is limited as all memory is, and a snapshot has its rows."""
    plans = small()
    store = Folder(str(tmp_path))
    network = Network(graph(*plans), "cqc", store=store, limits=Limits(memory=20_000))
    pause(network, "both", "keep")
    for number, (stream, batch) in enumerate(batches()):
        network.push(stream, batch)
        network.run()
        if number == 6:
            assert network.metrics()["memory"]["spilled_bytes"] > 0
            done = results(network)
            saved = network.snapshot()
            paused = [replace(each, pause="keep" if each.name == "both" else "") for each in plans]
            network = Network(graph(*paused), "cqc", store=store, limits=Limits(memory=20_000))
            network.restore(saved)
            assert network.metrics()["queries"]["both"]["queue_rows"] > 0
    pause(network, "both", "")
    network.finish()
    network.run()
    found = results(network)
    assert {name: sorted(done[name] + found[name], key=repr) for name in found} == expected()


def test_the_count_of_dropped_rows_survives_a_restart(tmp_path: Path) -> None:
    store, made = Folder(str(tmp_path)), query("a", per_window(source()))
    network = Network(graph(replace(made, pause="drop")), store=store)
    network.snapshot()
    network.push("s", rows(10))
    again = Network(graph(replace(made, pause="drop")), store=store)
    again.restore(network.snapshot())
    assert again.metrics()["queries"]["a"]["dropped"] == 10, "exactly, though other figures may be a second old"


def test_watermarks_do_not_pile_up_behind_a_pause() -> None:
    network = Network(graph(query("a", per_window(both(source("s"), source("t"))))))
    pause(network, "a", "drop")
    for number in range(50):
        network.push("s", rows(10, number, number * 1.0))
    assert len(network.snapshot()["items"]) <= 2


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["pause", "step", "run", "push"])), max_size=60))
def test_any_order_of_pauses_keeps_all_results(moves: list[tuple[int, str]]) -> None:
    names = [each.name for each in small()]
    network, left = Network(graph(*small()), "cqc"), list(batches())
    for which, move in moves:
        if move == "pause":
            pause(network, names[which], "" if network.queries[names[which]].pause else "keep")
        elif move == "push" and left:
            network.push(*left.pop(0))
        elif move == "step":
            network.step()
        else:
            network.run()
    for stream, batch in left:
        network.push(stream, batch)
    network.finish()
    for name in names:
        if network.queries[name].pause:
            pause(network, name, "")
    network.run()
    assert results(network) == expected()


def test_progress_tells_results_and_what_waits() -> None:
    network = Network(graph(query("a", columns(above(source(), -1), 1)), query("b", per_window(source("t")))))
    network.push("s", rows(10))
    assert network.progress("a") == (0, 11)
    assert network.progress("b") == (0, 0)
    network.run()
    assert network.progress("a") == (10, 0)
