"""003 §4.1: operator paths, segments, simplified segments and pruning."""

from __future__ import annotations

import pytest

from headgate.scheduling import Statistics, Topology, Units, View, policy
from headgate.scheduling.charts import paths
from headgate.scheduling.policies.segment import prune, release_capacity, segments, simplified_segments
from headgate.scheduling.yields import within


def figure_4_2(order: list[str]) -> View:
    """A path of project, select and join in some order, with release capacities as given by their costs."""
    inputs: dict[str, list[str]] = {}
    before = "s"
    for name in order:
        inputs[name] = [before]
        before = name
    topology = Topology.of(inputs)
    statistics = Statistics(topology)
    figures = {"project": (0.01, 1.0, 80.0), "select": (0.005, 0.5, 80.0), "join": (0.05, 1.0, 80.0)}
    size = 100.0
    for name in order:
        cost, selectivity, out = figures[name]
        statistics.expect(topology.id(name), cost=cost, selectivity=selectivity, bytes_in=size, bytes_out=out)
        size = out
    return View.of(topology, statistics)


def names(view: View, found: list[tuple[int, ...]]) -> list[tuple[str, ...]]:
    return [view.topology.names(segment) for segment in found]


def test_project_and_select_are_one_segment_and_the_join_another() -> None:
    # Fig. 4.2a: release capacities rise from project (20/0.01 = 2000) to select (40/0.005 = 8000), then fall.
    view = figure_4_2(["project", "select", "join"])
    assert [release_capacity(view, o) for o in range(3)] == pytest.approx([2000, 8000, 1600])
    assert names(view, segments(view, paths(view.topology)[0])) == [("project", "select"), ("join",)]


def test_a_falling_release_capacity_starts_a_segment() -> None:
    # Another plan for the same query; the thesis gives no figures for its Fig. 4.2b.
    view = figure_4_2(["select", "project", "join"])
    assert [release_capacity(view, o) for o in range(3)] == pytest.approx([12000, 0, 1600])
    found = segments(view, paths(view.topology)[0])
    assert names(view, found) == [("select",), ("project", "join")]


def test_simplified_segments_are_at_most_two() -> None:
    view = figure_4_2(["select", "project", "join"])
    path = paths(view.topology)[0]
    assert names(view, simplified_segments(view, path, 1.0)) == [("select",), ("project", "join")]
    assert names(view, simplified_segments(view, path, 0.0001))[0][:1] == ("select",)
    assert len(simplified_segments(view, path, 0.0001)) <= 2


def test_pruning_follows_figure_5_3() -> None:
    assert prune([(1, 2), (2,), (1, 2), (1, 2, 3), (4,)]) == [(1, 2, 3), (4,)]
    assert prune([(1, 2), (2, 3)]) == [(1, 2), (2, 3)]


def test_the_processing_capacity_of_a_path() -> None:
    # §4.1.2.1: 1/C_1 + σ_1/C_2 + σ_1σ_2/C_3 is the service time.
    topology = Topology.of({"a": ["s"], "b": ["a"], "c": ["b"]})
    statistics = Statistics(topology)
    for name, (cost, selectivity) in {"a": (0.5, 0.25), "b": (1, 0.5), "c": (2, 0.8)}.items():
        statistics.expect(topology.id(name), cost=cost, selectivity=selectivity)
    view = View.of(topology, statistics)
    units = Units.of(topology, policy("path").cut(view))
    assert within(view, units, units[0]).cost == pytest.approx(0.5 + 0.25 * 1 + 0.25 * 0.5 * 2)


def test_paths_through_a_join_are_ranked_each_on_its_own() -> None:
    topology = Topology.of({"a": ["s"], "b": ["t"], "j": ["a", "b"], "p": ["j"]})
    view = View.of(topology)
    assert [path.operators for path in paths(topology)] == [(0, 2, 3), (1, 2, 3)]
    units = Units.of(topology, policy("path").cut(view))
    assert [unit.operators for unit in units.units] == [(0, 2, 3), (1, 2, 3)]
    assert units[0].component == units[1].component


def test_a_fork_ends_a_path() -> None:
    topology = Topology.of({"a": ["s"], "b": ["a"], "c": ["a"]})
    assert [path.operators for path in paths(topology)] == [(0,), (1,), (2,)]
