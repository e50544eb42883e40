"""001: charts, the worked example of §5, and the fork cases of §4."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling import Cut, SchedulingError, Statistics, Topology, Units, View, policy
from headgate.scheduling.charts import partition
from headgate.simulation import OperatorModel, RecordedCosts, backlog, simulate


def view_of(inputs: dict[str, list[str]], cost: dict[str, float], **figures: dict[str, float]) -> View:
    """A view in which operators have these costs; selectivity 1 and sizes 100 unless given."""
    topology = Topology.of(inputs)
    statistics = Statistics(topology)
    for name, seconds in cost.items():
        statistics.expect(
            topology.id(name),
            cost=seconds,
            selectivity=figures.get("selectivity", {}).get(name, 1.0),
            bytes_in=figures.get("bytes_in", {}).get(name, 100.0),
            bytes_out=figures.get("bytes_out", {}).get(name, 100.0),
        )
    return View.of(topology, statistics)


def partitions(view: View, name: str) -> set[frozenset[str]]:
    units = Units.of(view.topology, policy(name).cut(view))
    return {frozenset(view.topology.names(unit.operators)) for unit in units.units}


@pytest.mark.parametrize(("name", "total"), [("tuple-greedy", 48), ("mss", 41)])
def test_the_example_of_section_5(name: str, total: float) -> None:
    topology = Topology.of({"a": ["s"], "b": ["t"]})
    models = {"a": OperatorModel(RecordedCosts((10.0, 1.0))), "b": OperatorModel(RecordedCosts((9.0,)))}
    result = simulate(topology, models, {"s": backlog(2), "t": backlog(1)}, name)
    assert result.latency().total == total


def test_simple_fork_stays_whole_when_the_slow_branch_is_quick_enough() -> None:
    # Fig. 5(a): τ3 < τ1 + τ2.
    view = view_of({"o1": ["s"], "o2": ["o1"], "o3": ["o1"]}, {"o1": 2, "o2": 1, "o3": 2.5})
    assert partitions(view, "chart-latency") == {frozenset({"o1", "o2", "o3"})}


def test_simple_fork_is_split_when_the_slow_branch_is_too_slow() -> None:
    # Fig. 5(b): τ3 > τ1 + τ2.
    view = view_of({"o1": ["s"], "o2": ["o1"], "o3": ["o1"]}, {"o1": 2, "o2": 1, "o3": 3.5})
    assert partitions(view, "chart-latency") == {frozenset({"o1", "o2"}), frozenset({"o3"})}


NESTED = {
    "E": ["s"],
    "C": ["E"],
    "D": ["E"],
    "G": ["E"],
    "A": ["C"],
    "B": ["C"],
    "H": ["G"],
    "P": ["G"],
    "O": ["G"],
}


def test_nested_fork() -> None:
    # Figs. 6–8: C is long, so C+A+B is one partition; O is slow, so G+H+P and O; D and G+H+P join E.
    cost = {"E": 4, "D": 1, "G": 1, "H": 1, "P": 1, "C": 18, "A": 1, "B": 2, "O": 30}
    assert partitions(view_of(NESTED, cost), "chart-latency") == {
        frozenset("EDGHP"),
        frozenset("CAB"),
        frozenset("O"),
    }


def test_a_long_root_takes_in_what_was_split_below_it() -> None:
    # §4: "the addition of E later can have the same effect as a longer C segment".
    cost = {"E": 400, "D": 1, "G": 1, "H": 1, "P": 1, "C": 18, "A": 1, "B": 2, "O": 30}
    assert partitions(view_of(NESTED, cost), "chart-latency") == {frozenset("EDGHPCABO")}


def test_memory_fork() -> None:
    # Fig. 9: O1→O2 and O3→O4 share their input; O4 frees memory fast, O2 slowly.
    view = view_of(
        {"o1": ["s"], "o2": ["o1"], "o3": ["s"], "o4": ["o3"]},
        {"o1": 1, "o2": 20, "o3": 1, "o4": 1},
        bytes_out={"o1": 60, "o3": 50},
        bytes_in={"o2": 60, "o4": 50},
    )
    assert partitions(view, "chart-memory") == {frozenset({"o1", "o3", "o4"}), frozenset({"o2"})}


def test_the_readers_of_a_fork_are_never_parted_for_memory() -> None:
    view = view_of({"o1": ["s"], "o2": ["o1"], "o3": ["o1"]}, {"o1": 1, "o2": 1, "o3": 1000})
    parts = partitions(view, "chart-memory")
    assert any({"o2", "o3"} <= part for part in parts)


def test_chain_splits_a_path_at_the_lower_envelope() -> None:
    # o1 frees 10 bytes in 1 s, o2 40 in 1 s: steeper together than o1 alone; o3 frees 50 in 10 s.
    view = view_of(
        {"o1": ["s"], "o2": ["o1"], "o3": ["o2"]},
        {"o1": 1, "o2": 1, "o3": 10},
        bytes_out={"o1": 90, "o2": 50},
        bytes_in={"o2": 90, "o3": 50},
    )
    assert partitions(view, "chain") == {frozenset({"o1", "o2"}), frozenset({"o3"})}


def test_a_step_without_time_is_refused() -> None:
    with pytest.raises(SchedulingError, match="step 1 of the chart takes 0 s; every step must take time"):
        partition([(1, 1), (0, 1)])


costs = st.lists(st.integers(1, 20), min_size=1, max_size=3)


@given(costs, costs, st.lists(st.integers(1, 20), max_size=1))
def test_no_schedule_beats_mss(first: list[int], second: list[int], third: list[int]) -> None:
    queues = [queue for queue in (first, second, third) if queue]
    topology = Topology.of({f"o{n}": [f"s{n}"] for n in range(len(queues))})
    models = {f"o{n}": OperatorModel(RecordedCosts([float(c) for c in queue])) for n, queue in enumerate(queues)}
    arrivals = {f"s{n}": backlog(len(queue)) for n, queue in enumerate(queues)}
    total = simulate(topology, models, arrivals, "mss").latency().total

    labels = [n for n, queue in enumerate(queues) for _ in queue]
    best = float("inf")
    for order in set(permutations(labels)):
        place, now, area = [0] * len(queues), 0, 0
        for n in order:
            now += queues[n][place[n]]
            place[n] += 1
            area += now
        best = min(best, area)
    assert total == pytest.approx(best)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-20, 50)), min_size=1, max_size=12))
def test_the_envelope_is_the_steepest_line_from_each_start(steps: list[tuple[int, int]]) -> None:
    found = partition(steps)
    assert [s.start for s in found] == [0, *[s.end for s in found[:-1]]]
    assert found[-1].end == len(steps)
    for segment in found:
        ends = range(segment.start + 1, len(steps) + 1)
        steepest = max(
            sum(g for _, g in steps[segment.start : end]) / sum(t for t, _ in steps[segment.start : end])
            for end in ends
        )
        assert segment.slope == pytest.approx(steepest)
    slopes = [s.slope for s in found]
    assert slopes == sorted(slopes, reverse=True)


def test_a_cut_between_groups() -> None:
    topology = Topology.of({"a": ["s"], "b": ["a"], "c": ["a"]})
    units = Units.of(topology, Cut.between(topology, [[0, 1], [2]]))
    assert [unit.operators for unit in units.units] == [(0, 1), (2,)]
