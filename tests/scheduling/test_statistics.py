"""Statistics: defaults, measurements, decay."""

from __future__ import annotations

import pytest

from headgate.scheduling import SchedulingError, Statistics, Topology
from headgate.scheduling.statistics import DEFAULTS


def one(kind: str = "select", **options: float) -> Statistics:
    return Statistics(Topology.of({"o": ["s"]}, kinds={"o": kind}), **options)


@pytest.mark.parametrize("kind", sorted(DEFAULTS))
def test_a_new_operator_starts_from_its_kind(kind: str) -> None:
    found = one(kind)
    assert (found.cost[0], found.selectivity[0]) == (DEFAULTS[kind].cost, DEFAULTS[kind].selectivity)
    assert found.rate == [0.0]


def test_an_unknown_kind_starts_as_a_selection() -> None:
    assert one("teleport").cost == [DEFAULTS["select"].cost]


def test_measurements_soon_replace_the_default() -> None:
    found = one(prior=1.0)
    found.observe(0, rows_in=999, rows_out=99.5, seconds=9.99, bytes_in=49_900, bytes_out=2_900)
    found.arrive(0, 2_000)
    found.update(10.0)
    assert found.cost[0] == pytest.approx(0.01, rel=1e-3)
    assert found.selectivity[0] == pytest.approx(0.1)
    assert found.bytes_in[0] == pytest.approx(50.0)
    assert found.bytes_out[0] == pytest.approx(29.5)
    assert found.rate[0] == pytest.approx(200.0)


def test_half_of_the_weight_is_gone_after_a_half_life() -> None:
    found = one(half_life=10.0, prior=1e-9)
    found.observe(0, 100, 100, 1.0, 0, 0)  # 10 ms a row
    found.update(10.0)
    assert found.cost[0] == pytest.approx(0.010)
    found.observe(0, 100, 0, 3.0, 0, 0)  # 30 ms a row; the old hundred count as fifty
    found.update(20.0)
    assert found.cost[0] == pytest.approx((50 * 0.010 + 100 * 0.030) / 150)
    assert found.selectivity[0] == pytest.approx(50 / 150)
    for now in range(30, 200, 10):
        found.observe(0, 100, 0, 3.0, 0, 0)
        found.update(float(now))
    assert found.cost[0] == pytest.approx(0.030, rel=1e-4)


def test_a_rate_follows_the_stream_and_fades_with_silence() -> None:
    found = one(half_life=5.0)
    for now in range(1, 61):
        found.arrive(0, 100)
        found.update(float(now))
    assert found.rate[0] == pytest.approx(100.0)
    for now in range(61, 66):
        found.update(float(now))
    # Five silent seconds are half of all that is remembered.
    assert found.rate[0] == pytest.approx(50.0, rel=0.01)
    for now in range(66, 161):
        found.arrive(0, 400)
        found.update(float(now))
    assert found.rate[0] == pytest.approx(400.0, rel=1e-3)


def test_an_operator_that_sees_no_row_keeps_its_figures() -> None:
    found = one(half_life=1.0)
    found.observe(0, 10, 5, 0.5, 1000, 500)
    found.update(1.0)
    before = (found.cost[0], found.selectivity[0], found.bytes_out[0])
    for now in range(2, 50):
        found.update(float(now))
    assert (found.cost[0], found.selectivity[0], found.bytes_out[0]) == pytest.approx(before)


def test_a_second_update_at_the_same_moment_changes_nothing() -> None:
    found = one()
    found.arrive(0, 10)
    found.update(1.0)
    rate = found.rate[0]
    found.update(1.0)
    found.update(0.5)
    assert found.rate[0] == rate


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one(half_life=0.0), "half_life is 0.0; give seconds above zero"),
        (lambda: one().expect(0, cost=0.0, selectivity=1), "operator 0 has cost 0.0; give seconds per row above zero"),
        (
            lambda: one().expect(0, cost=1.0, selectivity=1, rate=-1),
            "operator 0 has a negative selectivity, size or rate; give zero or more",
        ),
    ],
)
def test_impossible_figures_are_refused(call: object, message: str) -> None:
    with pytest.raises(SchedulingError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == message
