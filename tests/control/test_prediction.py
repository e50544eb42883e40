"""Predictions: the course of a demand, which begins with the rows that wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.control.observation import Backlog, Demand, NetworkLoad, Observation
from headgate.control.prediction import MOMENTS, Course, Predictor, horizon
from headgate.control.setting import Setting
from headgate.scheduling import Topology
from headgate.simulation import OperatorModel
from headgate.simulation.whatif import Scenario

TOPOLOGY = Topology.of({"a": ["s"]}, queries={"q": "a"})
FIFO = Setting(policy="fifo", aim=0.0)


def seen(rate: float, rows: float, age: float, **more: float) -> Observation:
    """An operator of 5 ms a row, on at most 2 cores, for which rows wait."""

    def scenario(bundle: float, _: Setting) -> Scenario:
        return Scenario(TOPOLOGY, {"a": OperatorModel(0.005 * bundle)}, {"s": 100.0})

    load = NetworkLoad(scenario, {"s": rate}, trigger=0.1, cores=2, backlog=lambda _: {"a": Backlog(rows, age)})
    return Observation(0.0, {"q": Demand("q", "default", 1.0, **({"longest": 2.0} | more))}, {"default": 1.0}, load)


def test_a_backlog_is_seen_until_it_is_processed() -> None:
    """2,000 rows are 10 s of work; half of a core is left for them, so they are gone after 20 s."""
    course = Predictor(seen(100, 2000, 10.0), FIFO).course(FIFO)
    assert course.at(5.0)["q"] > 1.5
    assert course.lasting["q"] < -0.1
    assert 20 <= course.met_after({"q": -0.1}) <= 35


def test_a_simulation_lasts_as_long_as_the_best_setting_needs_for_the_backlog() -> None:
    short, long = horizon(seen(100, 0, 0.0), FIFO), horizon(seen(100, 8000, 40.0), FIFO)
    assert short == 30
    assert long == pytest.approx(20 + 2 * 40 / 1.5)
    assert horizon(seen(1000, 8000, 40.0), FIFO) == 120


def test_an_overload_does_not_suffice_however_slight() -> None:
    """3% too many rows for a core: the latency is within the limit for a minute, and grows."""
    course = Predictor(seen(206, 0, 0.0, longest=8.0), FIFO, 60.0).course(FIFO)
    assert max(course.excess["q"]) < 0
    assert course.lasting["q"] > course.excess["q"][-1] + 0.02


def test_rows_that_wait_are_not_shed() -> None:
    """Half of the rows are shed where they enter, which leaves a quarter of a core busy. 2,000 rows still take 10 s."""
    shed = replace(FIFO, shed={"q": 0.5})
    course = Predictor(seen(100, 2000, 10.0, accuracy=0.5), FIFO).course(shed)
    assert course.met_after({"q": -0.1}) >= 10
    assert course.lasting["q"] < -0.5


def test_the_cost_of_a_prediction_does_not_depend_on_the_backlog() -> None:
    """Tuples stand for more rows: the courses of ten times as many rows of a tenth of the cost are the same."""
    many = seen(1000, 20_000, 10.0)
    load = replace(
        many.load,
        scenario=lambda bundle, _: Scenario(TOPOLOGY, {"a": OperatorModel(0.0005 * bundle)}, {"s": 100.0}),
    )
    found = Predictor(replace(many, load=load), FIFO).course(FIFO).excess["q"]
    expected = Predictor(seen(100, 2000, 10.0), FIFO).course(FIFO).excess["q"]
    assert found == pytest.approx(expected, abs=0.15)


def test_measurements_correct_predictions_only_while_they_are_steady() -> None:
    now = seen(100, 0, 0.0, latency=0.5)
    plain, corrected = (Predictor(now, FIFO, steady=steady).course(FIFO).lasting["q"] for steady in ((), ("q",)))
    assert (corrected + 1) * 2.0 == pytest.approx(0.5, rel=0.1)
    assert plain != pytest.approx(corrected, abs=0.01)


def test_a_course_between_its_moments_and_when_it_is_met() -> None:
    times = tuple(float(number + 1) for number in range(MOMENTS))
    course = Course(times, {"q": [1.0] * 4 + [-0.5] * 8, "r": [-0.5] * MOMENTS})
    assert course.at(4.5) == {"q": 0.25, "r": -0.5}
    assert course.met_after({"q": -0.1, "r": 0.0}) == 5.0
    assert course.met_after({"q": -0.6, "r": 0.0}) == float("inf")
    assert Course((), {"q": []}).lasting == {"q": float("inf")}
