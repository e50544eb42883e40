"""Experiments of 002: the worked example exactly, the others on few seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from headgate.outcome import Outcome
from headgate.papers import amos
from headgate.papers.amos import selection
from headgate.papers.amos.comparison import Comparison
from headgate.papers.amos.example import at, equal_where_readable
from headgate.papers.amos.plans import SINGLE, AmosRun, run


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


def _run(delay: float, output: float, queue: float, queues: Sequence[float] = (1.0,)) -> AmosRun:
    nothing = np.zeros(1)
    return AmosRun(delay, delay, queue, output, nothing, nothing, np.array(queues), {})


def test_scores_are_equations_1_and_2_over_whole_runs() -> None:
    delays = {"RR": 4.0, "FIFO": 1.0, "MTIQ": 2.0, "Chain": 5.0, "AMoS": 2.0}
    found = Comparison({label: [_run(delay, 1.0, 1.0)] for label, delay in delays.items()})
    scored = found.scores({"delay": 1.0})
    # The mean of the four is 3, their range 4; a small delay is better.
    assert {label: float(v[0]) for label, v in scored.items()} == {
        "RR": 0.75,
        "FIFO": 1.5,
        "MTIQ": 1.25,
        "Chain": 0.5,
        "AMoS": 1.25,
    }
    assert found.won(scored, "FIFO") == 0.0
    assert found.won(scored, "AMoS") == 0.0


def test_time_bins_count_where_the_queues_are_shorter_than_all_others() -> None:
    runs = {label: [_run(1.0, 1.0, 1.0, (3.0, 2.0, 5.0, 1.0))] for label in SINGLE}
    runs["AMoS"] = [_run(1.0, 1.0, 1.0, (2.0, 2.0, 6.0, 0.5))]
    assert Comparison(runs).shortest_share("AMoS") == 0.5


SINGLES = {"RR": (2.0, 3.0, 70.0), "FIFO": (1.0, 3.1, 120.0), "MTIQ": (2.5, 3.0, 60.0), "Chain": (4.0, 2.9, 50.0)}


def measured(delay: float, output: float, queue: float) -> dict[str, Any]:
    """The figures of an AMoS with these objectives on average, over three runs that differ a little."""
    values = {**SINGLES, "AMoS": (delay, output, queue), "AMoS, our learner": (delay, output, queue)}
    shifts = (-0.01, 0.0, 0.01)
    runs = {
        label: [_run(*(v * (1 + s * i) for i, v in enumerate(of, 1))) for s in shifts] for label, of in values.items()
    }
    return {**selection.figures(Comparison(runs), selection.DELAY_70), selection.ABOVE_7: {"AMoS": 0.0}}


GOOD, BAD = measured(0.3, 3.01, 45.0), measured(4.1, 2.8, 130.0)


def test_the_compromise_must_be_better_than_the_best_single_algorithm() -> None:
    assert selection.best_compromise(GOOD, "AMoS")
    # As good a delay as the best single algorithm's is not below it.
    assert not selection.best_compromise(measured(1.0, 3.0, 50.0), "AMoS")


@pytest.mark.parametrize("rule", [selection.below_every])
def test_rules_accept_the_papers_sentence_and_reject_the_worst_algorithm(rule: Callable[..., bool]) -> None:
    assert rule(GOOD, "AMoS")
    assert not rule(BAD, "AMoS")
    # As good as the best single algorithm is not better than it.
    assert not rule(measured(1.0, 3.0, 50.0), "AMoS")


def test_the_output_must_be_near_the_mean() -> None:
    assert not selection.best_compromise(measured(0.9, 3.5, 45.0), "AMoS")


def test_more_output_is_asked_in_standard_errors() -> None:
    assert not selection.more_output(GOOD, "AMoS")
    assert selection.more_output({**GOOD, selection.ABOVE_7: {"AMoS": 2.1}}, "AMoS")
    assert not selection.more_output({**BAD, selection.ABOVE_7: {"AMoS": 9.0}}, "AMoS")


def test_all_three_objectives_must_be_near_the_best() -> None:
    assert selection.well_on_all(measured(0.9, 3.2, 45.0), "AMoS")
    # Better than the mean on all three, but far behind Chain's queues.
    assert not selection.well_on_all(measured(0.9, 3.2, 65.0), "AMoS")
    assert not selection.well_on_all(BAD, "AMoS")


def test_queues_must_be_shortest_in_half_of_the_bins() -> None:
    assert selection.often_shortest({selection.SHORTEST: {"AMoS": 0.5}}, "AMoS")
    assert not selection.often_shortest({selection.SHORTEST: {"AMoS": 0.2}}, "AMoS")


def test_single_algorithms_are_ordered_as_in_the_papers_figure_2() -> None:
    assert amos.figure_2(1, seeds=3, seconds=150.0).holds


@pytest.mark.parametrize("experiment", [amos.delay, amos.delay_30_rate_70])
def test_an_experiment_measures_what_it_claims(experiment: Callable[..., Outcome]) -> None:
    outcome = experiment(3, seeds=1, seconds=30.0)
    assert outcome.paper.keys() <= outcome.measured.keys()
    assert outcome.setup["seeds"] == [3001]
    assert outcome.holds == outcome.rule(outcome.paper, outcome.measured)
    assert all(len(series.x) == len(series.y) == 6 for series in outcome.series)


def test_the_same_seed_gives_the_same_figures() -> None:
    run.cache_clear()
    first = dict(amos.delay(5, seeds=1, seconds=20.0).measured)
    run.cache_clear()
    assert dict(amos.delay(5, seeds=1, seconds=20.0).measured) == first
