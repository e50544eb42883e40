"""Experiments of 001: the worked example and the partitions exactly, the sweeps on few seeds."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.papers import chart
from headgate.papers.chart.forks import FORKS, Fork, partitions
from headgate.papers.chart.outliers import TUPLES, with_outliers


def test_greedy_48_mss_41() -> None:
    outcome = chart.example(1)
    assert dict(outcome.measured) == {"greedy": 48.0, "MSS": 41.0}
    assert outcome.holds


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.figure)
def test_partitions_are_those_the_paper_derives(fork: Fork) -> None:
    assert partitions(fork) == fork.expected


def test_areas_of_the_simple_fork_are_the_papers() -> None:
    """§4: N²(τ1+τ2+τ3) for the uncut fork, up to the half steps between a staircase and a line."""
    outcome = chart.forks(1)
    assert outcome.holds
    [area] = [s.label for s in outcome.series if "5(b)" in s.panel and s.label.startswith("O1+O2+O3")]
    assert float(area.split("area ")[1].replace(",", "")) == pytest.approx(100**2 * 9, rel=0.01)


def test_outliers_are_exactly_the_given_share() -> None:
    plain, some = (with_outliers(np.random.default_rng(1), share, 50.0) for share in (0, 10))
    changed = [a != b for a, b in zip(plain, some, strict=True)]
    assert sum(changed) == TUPLES // 10
    assert all(cost > 40 for cost, other in zip(some, changed, strict=True) if other)


def test_latency_by_outliers() -> None:
    outcome = chart.latency(1, seeds=2, shares=(0, 4, 20))
    assert outcome.holds
    assert outcome.measured["greedy above MSS, most (%)"] > 25


def test_memory_by_outliers() -> None:
    assert chart.memory(1, seeds=2, shares=(0, 4, 20)).holds


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [chart.latency, chart.memory])
def test_the_whole_figure_holds(experiment: object) -> None:
    assert experiment(1, seeds=5).holds  # type: ignore[operator]
