"""The size of trains follows the measured cost of a call and of a row."""

from __future__ import annotations

import random

import pytest

from headgate.runtime.train_size import FIRST_TRAIN, TrainSize


def learned(fixed: float, per_row: float, lengths: list[int]) -> TrainSize:
    size = TrainSize(1)
    for rows in lengths:
        size.learn(rows, fixed + per_row * rows)
    return size


def test_the_first_train_is_of_moderate_size() -> None:
    assert TrainSize(3).within(0.05) == TrainSize(3, 1e-6).within(0.05) == FIRST_TRAIN


def test_the_first_train_of_costly_operators_is_short() -> None:
    """Units are made again with every change of the plan: what their operators cost is known by then."""
    assert TrainSize(1, 2e-3).within(0.05) == 2.5
    assert TrainSize(1, 0.5).within(0.05) == 1


@pytest.mark.parametrize(("fixed", "per_row"), [(1e-3, 1e-7), (2e-5, 1e-5), (0.1, 1e-3), (0.0, 1e-6)])
def test_fixed_and_per_row_cost_are_separated(fixed: float, per_row: float) -> None:
    chosen = random.Random(1)
    size = learned(fixed, per_row, [chosen.randint(1, 20_000) for _ in range(50)])
    size.within(1.0)
    assert size.per_row == pytest.approx(per_row, rel=1e-6)
    assert size.fixed == pytest.approx(fixed, abs=1e-9)
    assert size.within(fixed + 1.0) == pytest.approx(max(fixed, 1.0) / per_row, rel=1e-6)


def test_a_train_is_worth_its_call_however_short_the_time() -> None:
    size = learned(1e-3, 1e-7, [10, 1000, 5000, 100])
    assert size.within(1e-4) == pytest.approx(10_000, rel=1e-3)


def test_the_cost_of_equal_trains_is_attributed_to_the_rows() -> None:
    size = learned(0.0, 1e-3, [100] * 20)
    assert size.within(1.0) == pytest.approx(1000, rel=0.01)


def test_a_higher_cost_per_row_is_noticed_at_once() -> None:
    size = learned(1e-4, 1e-7, [10, 1000, 5000, 100] * 5)
    size.within(0.05)
    assert size.minimum > 500
    size.learn(500, 1e-4 + 1e-2 * 500)
    assert size.minimum == 0
    assert size.within(0.05) < 10


def test_a_higher_cost_per_call_is_learned_from_short_trains() -> None:
    size = learned(1e-4, 1e-7, [10, 1000, 5000, 100] * 5)
    taken = []
    for _ in range(20):
        rows = int(min(5000.0, size.within(0.05)))
        taken.append(rows)
        size.learn(rows, 0.2 + 1e-6 * rows)
    assert min(taken[:3]) < 5000
    assert taken[-5:] == [5000] * 5


def test_trains_of_one_row_grow_where_the_call_is_the_cost() -> None:
    size = TrainSize(1)
    for _ in range(3):
        size.learn(1, 0.1)
    taken = 0
    for _ in range(60):
        rows = max(1, int(min(1000.0, size.within(0.01))))
        taken += rows
        size.learn(rows, 0.1 + 1e-6 * rows)
    assert taken > 20_000


def test_expensive_rows_are_rarely_taken_in_pairs() -> None:
    size = TrainSize(1)
    rows, taken = 1, []
    for _ in range(100):
        size.learn(rows, 1.0 * rows)
        rows = max(1, int(min(1000.0, size.within(0.01))))
        taken.append(rows)
    assert max(taken) <= 2
    assert sum(taken) < 115


def test_a_single_outlier_is_forgotten() -> None:
    size = learned(1e-3, 1e-6, [500, 1000, 5000, 2000] * 5)
    size.within(0.05)
    size.learn(2000, 0.5)
    for _ in range(10):
        rows = int(min(5000.0, size.within(0.05)))
        size.learn(rows, 1e-3 + 1e-6 * rows)
    assert size.within(0.05) > 5000


def test_a_train_has_at_least_one_row() -> None:
    size = learned(0.0, 10.0, [1, 2, 3])
    assert size.within(0.001) == 1.0
