"""How long trains are made: by what a call and a row take, as far as the trains so far can tell."""

from __future__ import annotations

import random

import pytest

from headgate.runtime.pace import FIRST, Pace


def learned(fixed: float, per_row: float, lengths: list[int]) -> Pace:
    pace = Pace(1)
    for rows in lengths:
        pace.learn(rows, fixed + per_row * rows)
    return pace


def test_before_anything_is_known_a_train_is_of_moderate_length() -> None:
    assert Pace(3).train(0.05) == FIRST


@pytest.mark.parametrize(("fixed", "per_row"), [(1e-3, 1e-7), (2e-5, 1e-5), (0.1, 1e-3), (0.0, 1e-6)])
def test_the_two_parts_are_told_apart(fixed: float, per_row: float) -> None:
    chosen = random.Random(1)
    pace = learned(fixed, per_row, [chosen.randint(1, 20_000) for _ in range(50)])
    pace.train(1.0)
    assert pace.per_row == pytest.approx(per_row, rel=1e-6)
    assert pace.fixed == pytest.approx(fixed, abs=1e-9)
    assert pace.train(fixed + 1.0) == pytest.approx(max(fixed, 1.0) / per_row, rel=1e-6)


def test_rows_are_worth_the_call_however_short_the_time() -> None:
    pace = learned(1e-3, 1e-7, [10, 1000, 5000, 100])
    assert pace.train(1e-4) == pytest.approx(10_000, rel=1e-3)


def test_trains_all_alike_are_charged_to_the_rows() -> None:
    pace = learned(0.0, 1e-3, [100] * 20)
    assert pace.train(1.0) == pytest.approx(1000, rel=0.01)


def test_rows_that_became_dearer_are_noticed_at_once() -> None:
    pace = learned(1e-4, 1e-7, [10, 1000, 5000, 100] * 5)
    pace.train(0.05)
    assert pace.small > 500
    pace.learn(500, 1e-4 + 1e-2 * 500)
    assert pace.small == 0
    assert pace.train(0.05) < 10


def test_a_call_that_became_dearer_is_learned_from_short_trains() -> None:
    pace = learned(1e-4, 1e-7, [10, 1000, 5000, 100] * 5)
    taken = []
    for _ in range(20):
        rows = int(min(5000.0, pace.train(0.05)))
        taken.append(rows)
        pace.learn(rows, 0.2 + 1e-6 * rows)
    assert min(taken[:3]) < 5000
    assert taken[-5:] == [5000] * 5


def test_single_rows_that_take_as_long_as_many_are_not_taken_singly_for_ever() -> None:
    pace = Pace(1)
    for _ in range(3):
        pace.learn(1, 0.1)
    taken = 0
    for _ in range(60):
        rows = max(1, int(min(1000.0, pace.train(0.01))))
        taken += rows
        pace.learn(rows, 0.1 + 1e-6 * rows)
    assert taken > 20_000


def test_dear_rows_are_seldom_taken_in_twos() -> None:
    pace = Pace(1)
    rows, taken = 1, []
    for _ in range(100):
        pace.learn(rows, 1.0 * rows)
        rows = max(1, int(min(1000.0, pace.train(0.01))))
        taken.append(rows)
    assert max(taken) <= 2
    assert sum(taken) < 115


def test_a_single_hiccup_is_forgotten() -> None:
    pace = learned(1e-3, 1e-6, [500, 1000, 5000, 2000] * 5)
    pace.train(0.05)
    pace.learn(2000, 0.5)
    for _ in range(10):
        rows = int(min(5000.0, pace.train(0.05)))
        pace.learn(rows, 1e-3 + 1e-6 * rows)
    assert pace.train(0.05) > 5000


def test_a_row_is_the_least() -> None:
    pace = learned(0.0, 10.0, [1, 2, 3])
    assert pace.train(0.001) == 1.0
