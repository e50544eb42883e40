"""Arrival processes: rates, changes of the mean, reproducibility."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest

from headgate.scheduling import ModelError
from headgate.simulation import Bursts, ChangingPoisson, Constant, Poisson, RecordedArrivals, backlog


def test_poisson_has_exponential_gaps() -> None:
    times = np.array(list(islice(Poisson(50).times(Random(1)), 20_000)))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(0.02, rel=0.03)
    # The deviation of an exponential distribution equals its mean.
    assert gaps.std() == pytest.approx(0.02, rel=0.05)


def test_the_mean_changes_in_turn() -> None:
    process = ChangingPoisson((10, 200), every=5.0, until=200.0)
    times = np.array(list(process.times(Random(1))))
    per_phase = np.histogram(times, np.arange(0, 201, 5))[0]
    assert per_phase[::2].mean() == pytest.approx(50, rel=0.1)
    assert per_phase[1::2].mean() == pytest.approx(1000, rel=0.05)
    assert process.rate == 105
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= 200


def test_the_mean_may_be_drawn_at_each_change() -> None:
    process = ChangingPoisson((10, 200), every=5.0, until=1000.0, draw=True)
    per_phase = np.histogram(list(process.times(Random(1))), np.arange(0, 1001, 5))[0] / 5
    assert per_phase.mean() == pytest.approx(process.rate, rel=0.1)
    assert per_phase.min() < 40
    assert per_phase.max() > 170
    # Uniform between the two: the deviation of the means alone would be 190/√12 = 55.
    assert per_phase.std() == pytest.approx(55, rel=0.15)


def test_the_same_seed_gives_the_same_rows() -> None:
    process = ChangingPoisson((10, 50), until=50.0, draw=True)
    assert list(process.times(Random(5))) == list(process.times(Random(5)))
    assert list(process.times(Random(5))) != list(process.times(Random(6)))


def test_bursts_follow_one_another() -> None:
    process = Bursts([(10, 1000.0), (5, 1.0)])
    times = list(process.times(Random(1)))
    assert len(times) == 15
    assert times[9] == pytest.approx(0.01)
    assert times[-1] == pytest.approx(5.01)
    assert process.rate == pytest.approx(15 / 5.01)


def test_a_backlog_is_queued_at_time_zero() -> None:
    assert list(backlog(3).times(Random(1))) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(-1), "a Poisson arrival process has rate -1 rows/s; give a rate above zero"),
        (lambda: Constant(0), "a constant arrival process has rate 0 rows/s; give a rate above zero"),
        (lambda: ChangingPoisson(()), "a Poisson process with changing mean needs at least one rate"),
        (
            lambda: ChangingPoisson((1, 0)),
            "a Poisson arrival process with changing mean has rate 0 rows/s; give a rate above zero",
        ),
        (lambda: ChangingPoisson((1,), every=0), "the mean changes every 0 s; give seconds above zero"),
        (lambda: Bursts([]), "bursts need at least one phase of (rows, rate)"),
        (lambda: RecordedArrivals((2.0, 1.0)), "recorded arrival times decrease; sort them"),
        (lambda: RecordedArrivals((-1.0,)), "recorded arrival time -1.0 is negative"),
    ],
)
def test_impossible_arrivals_are_refused(make: object, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == message
