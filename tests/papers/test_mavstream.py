"""Experiments of 003: the query has the shape of the thesis's, and the claims hold on a few seeds."""

from __future__ import annotations

import pytest

from headgate.papers import mavstream
from headgate.scheduling import Units, View, policy
from headgate.scheduling.policies.segment import release_capacity
from headgate.simulation import Poisson
from headgate.simulation.known_statistics import known_statistics, row_sizes


@pytest.fixture
def view() -> View:
    models = mavstream.models(1000)
    sizes, made = row_sizes(mavstream.TOPOLOGY, models, mavstream.BYTES)
    arrivals = {"a": Poisson(100), "b": Poisson(100)}
    return View.of(mavstream.TOPOLOGY, known_statistics(mavstream.TOPOLOGY, models, arrivals, sizes, made, 10.0))


def units(view: View, text: str) -> set[tuple[str, ...]]:
    found = Units.of(view.topology, policy(text).cut(view))
    return {view.topology.names(unit.operators) for unit in found.units}


def test_six_operators_on_two_paths(view: View) -> None:
    assert len(view.topology.operators) == 6
    assert units(view, mavstream.POLICIES[mavstream.PATH]) == {
        ("select a", "project a", "join", "project"),
        ("select b", "project b", "join", "project"),
    }


def test_segment_cuts_where_release_capacity_falls_and_simplified_only_once(view: View) -> None:
    capacity = {name: release_capacity(view, o) for o, name in enumerate(view.topology.operators)}
    assert capacity["select a"] == pytest.approx((100 - 0.4 * 100) / 1e-3)
    assert capacity["project a"] == pytest.approx((100 - 60) / 1e-3)
    assert capacity["project a"] / capacity["select a"] < mavstream.GAMMA
    ends = {("join", "project")}
    leaves = {("select a",), ("select b",)}
    assert units(view, mavstream.POLICIES[mavstream.SEGMENT]) == leaves | {("project a",), ("project b",)} | ends
    rest = {("project a", "join", "project"), ("project b", "join", "project")}
    assert units(view, mavstream.POLICIES[mavstream.SIMPLIFIED]) == leaves | rest


def test_every_strategy_delivers_the_same_number_of_tuples() -> None:
    """ "The total number of tuples given out is the same for a query using different scheduling strategies." """
    arrivals = Poisson(400, rows=2000)
    counts = {p: mavstream.run(p, arrivals, 1000, 1).latency().count for p in mavstream.POLICIES}
    # Two windows of 400 × 400 passing tuples; one pair in a hundred matches.
    assert set(counts.values()) == {3200}


def test_latency_and_memory_on_two_seeds() -> None:
    outcome = mavstream.latency(1, 2, (100, 500, 900))
    assert outcome.holds, outcome.measured
    assert set(outcome.paper) <= set(outcome.measured)
    outcome = mavstream.memory(1, 2, (100, 500, 900))
    assert outcome.holds, outcome.measured


def test_throughput_on_two_seeds() -> None:
    outcome = mavstream.throughput(1, 2)
    assert outcome.holds, outcome.measured
    assert set(outcome.paper) <= set(outcome.measured)


def test_the_rule_rejects_a_wrong_order() -> None:
    outcome = mavstream.throughput(1, 1)
    row = outcome.measured["100 tuples/s"]
    swapped = {**outcome.measured, "100 tuples/s": {**row, mavstream.PATH: row[mavstream.ROUND_ROBIN] + 1}}
    assert not outcome.rule(outcome.paper, swapped)


def test_burst_on_one_seed() -> None:
    outcome = mavstream.burst(1, 1)
    assert outcome.holds, outcome.measured
    # 20,000 tuples in 400 s, as in the thesis.
    assert sum(rows for rows, _ in mavstream.PHASES) == 20_000
    assert sum(rows / rate for rows, rate in mavstream.PHASES) == 400


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency", "memory", "throughput", "burst"])
def test_the_whole_experiment_holds(name: str) -> None:
    outcome = getattr(mavstream, name)(101)
    assert outcome.holds, outcome.measured
