"""Experiments of 002: the worked example exactly, the others on few seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.outcome import Outcome
from headgate.papers import amos
from headgate.papers.amos.example import at, equal_where_readable
from headgate.papers.amos.plans import SINGLE, run
from headgate.papers.amos.selection import scores


def test_every_legible_cell_of_both_tables_is_equal() -> None:
    outcome = amos.example(1)
    assert outcome.measured["FIFO, t = 2"] == [3, 0, 0, 3, 0.1]
    assert outcome.measured["MTIQ, t = 4"] == [1, 1, 0.125, 2.125, 0]
    assert outcome.holds


def test_a_wrong_cell_is_detected() -> None:
    outcome = amos.example(1)
    wrong = {**outcome.measured, "FIFO, t = 4": [3, 0, 0, 3, 0.2]}
    assert not equal_where_readable(outcome.paper, wrong)


def test_a_row_of_a_table_includes_the_events_of_its_time() -> None:
    assert at([(1.0, 0, 2.0), (1.5, 0, -1.0), (1.5, 1, 0.25), (2.0, 3, 0.1)], 1.5) == [1, 0.25, 0, 1.25, 0]


def test_scores_are_equations_1_and_2_over_whole_runs() -> None:
    averages = {
        "RR": {"delay": 4.0},
        "FIFO": {"delay": 1.0},
        "MTIQ": {"delay": 2.0},
        "Chain": {"delay": 5.0},
        "AMoS": {"delay": 2.0},
    }
    scored = scores(averages, {"delay": 1.0})
    # The mean of the four is 3, their range 4; a small delay is better.
    assert scored == {"RR": 0.75, "FIFO": 1.5, "MTIQ": 1.25, "Chain": 0.5, "AMoS": 1.25}


def test_single_algorithms_are_ordered_as_in_the_papers_figure_2() -> None:
    """Chain and MTIQ have the shortest queues; FIFO has the shortest delay (plan 1)."""
    found = {label: [run(1, policy, seed, 60.0) for seed in (1, 2, 3)] for label, policy in SINGLE.items()}
    queue = {label: sum(one.queue for one in several) for label, several in found.items()}
    delay = {label: sum(one.delay for one in several) for label, several in found.items()}
    assert max(queue["Chain"], queue["MTIQ"]) < min(queue["FIFO"], queue["RR"])
    assert delay["FIFO"] == min(delay.values())


@pytest.mark.parametrize("experiment", [amos.delay, amos.queue, amos.delay_70_rate_30, amos.equal])
def test_an_experiment_measures_what_it_claims(experiment: Callable[..., Outcome]) -> None:
    outcome = experiment(3, seeds=1, seconds=30.0)
    assert outcome.measured.keys() == outcome.paper.keys()
    assert outcome.setup["seeds"] == [3]
    assert outcome.holds == outcome.rule(outcome.paper, outcome.measured)
    assert all(len(series.x) == len(series.y) == 6 for series in outcome.series)


def test_the_same_seed_gives_the_same_figures() -> None:
    run.cache_clear()
    first = dict(amos.delay(5, seeds=1, seconds=20.0).measured)
    run.cache_clear()
    assert dict(amos.delay(5, seeds=1, seconds=20.0).measured) == first


@pytest.mark.slow
def test_our_learner_is_near_the_best_single_and_far_better_than_the_wheel() -> None:
    measured = amos.delay(1).measured
    wheel, ours = (measured[f"{label}, above the best single (%)"] for label in ("AMoS", "AMoS, our learner"))
    assert ours < 10
    assert ours < wheel - 5
