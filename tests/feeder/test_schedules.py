"""The feeder's schedules: against the distribution that they claim, and exactly by seed."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest

from headgate.feeder.feed import Schedule
from headgate.scheduling import ModelError
from headgate.simulation import Arrivals, Bursts, ChangingPoisson, Constant, Poisson, RecordedArrivals, bursty
from headgate.simulation.arrivals import BLOCK

PROCESSES = [
    Poisson(700.0, until=30.0),
    Poisson(700.0, rows=10_000, together=7),
    ChangingPoisson((50.0, 900.0), every=2.0, until=30.0),
    ChangingPoisson((50.0, 900.0), every=2.0, until=30.0, draw=True),
    Bursts([(500, 5000.0), (500, 100.0)] * 3, poisson=True),
]
EXACT = [
    Constant(700.0, until=30.0),
    Constant(700.0, rows=BLOCK + 3),
    Bursts([(500, 5000.0), (0, 1.0), (20_000, 100.0)]),
    RecordedArrivals((0.0, 0.0, 1.5, 1.5, 7.0)),
]


def drawn(process: Arrivals, seed: int = 1) -> np.ndarray:
    return np.concatenate(list(process.blocks(np.random.default_rng(seed))))


def kolmogorov(values: np.ndarray, others: np.ndarray) -> float:
    """The statistic of Kolmogorov and Smirnov for two samples, times the root of its size: above 1.63 in one of 100."""
    every = np.sort(np.concatenate([values, others]))
    one = np.searchsorted(np.sort(values), every, side="right") / len(values)
    two = np.searchsorted(np.sort(others), every, side="right") / len(others)
    size = len(values) * len(others) / (len(values) + len(others))
    return float(np.abs(one - two).max() * np.sqrt(size))


def test_poisson_gaps_are_exponential_and_independent() -> None:
    gaps = np.diff(drawn(Poisson(50.0, rows=50_000)))
    exact = -np.log1p(-(np.arange(len(gaps)) + 0.5) / len(gaps)) / 50.0
    assert np.abs(np.sort(gaps) - exact).max() * np.sqrt(len(gaps)) < 100
    assert kolmogorov(gaps, exact) < 1.2
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 3 / np.sqrt(len(gaps))


def test_poisson_counts_have_the_variance_of_their_mean() -> None:
    counts = np.histogram(drawn(Poisson(200.0, until=500.0)), np.arange(501))[0]
    assert counts.mean() == pytest.approx(200, rel=0.01)
    assert counts.var() == pytest.approx(200, rel=0.2)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_blocks_and_times_have_the_same_distribution(process: Arrivals) -> None:
    one, two = drawn(process), np.array(list(process.times(Random(2))))
    assert len(one) == pytest.approx(len(two), abs=5 * np.sqrt(len(two)) * getattr(process, "together", 1) ** 0.5 * 6)
    assert (np.diff(one) >= 0).all()
    assert kolmogorov(np.diff(one), np.diff(two)) < 2.5


@pytest.mark.parametrize("process", EXACT, ids=str)
def test_blocks_and_times_without_chance_are_equal(process: Arrivals) -> None:
    assert drawn(process) == pytest.approx(np.array(list(process.times(Random(1)))))


@pytest.mark.parametrize("process", [*PROCESSES, *EXACT], ids=str)
def test_a_block_has_at_most_so_many_rows(process: Arrivals) -> None:
    assert max(map(len, process.blocks(np.random.default_rng(1)))) <= BLOCK


def test_bursts_return_and_keep_their_mean() -> None:
    process = bursty(1000.0, peak=10.0, share=0.4, cycle=5.0)
    moments = np.concatenate(list(islice(process.blocks(np.random.default_rng(3)), 60)))
    per_tenth = np.histogram(moments, np.arange(0, 50, 0.1))[0]
    assert process.rate == pytest.approx(1000.0)
    assert per_tenth.mean() == pytest.approx(100, rel=0.05)
    # 2,000 rows at 10,000 rows/s, then 3,000 in the rest of the cycle.
    assert per_tenth[0] == pytest.approx(1000, rel=0.2)
    assert per_tenth[10:40].mean() == pytest.approx(3000 / 48, rel=0.1)
    assert (per_tenth > 500).sum() == pytest.approx(20, abs=6)


@pytest.mark.parametrize("process", [*PROCESSES, *EXACT], ids=str)
def test_a_schedule_gives_each_time_once_however_it_is_asked(process: Arrivals) -> None:
    whole = Schedule(process, np.random.default_rng(5)).until(1e9)
    schedule, chance = Schedule(process, np.random.default_rng(5)), np.random.default_rng(6)
    moment, parts = 0.0, []
    while not schedule.ended:
        moment += chance.exponential(3.0)
        part = schedule.until(moment)
        assert (part <= moment).all()
        parts.append(part)
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_a_seed_gives_exactly_these_times() -> None:
    moments = drawn(Poisson(10.0, rows=4), seed=42)
    assert moments.tolist() == pytest.approx([0.24042086, 0.47403976, 0.71251633, 0.74049583])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"peak": 1.0}, "the peak of bursts is 1.0 times the mean; give more than 1"),
        ({"share": 1.0}, "1.0 of the rows arrive in bursts; give a share between 0 and 1"),
        ({"rate": 0.01}, "a cycle of 10.0 s at 0.01 rows/s has less than a row in a phase; give a longer cycle"),
    ],
)
def test_impossible_bursts_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        bursty(**{"rate": 100.0, **given})
    assert str(caught.value) == message
