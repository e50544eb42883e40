"""The day of changing load: its verdict, and the rows of its live form."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headgate.bench.day_live import WARM_UP, DayArrivals, DayRows
from headgate.bench.day_script import COMES, DAY, GOES, SLOW_FROM, SLOW_UNTIL, SLOWER, DayRun, outcome, rate
from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators


def day(**met: float) -> DayRun:
    """A day in which each spec is met for a share of the time."""
    run = DayRun()
    for query, share in met.items():
        for second in range(100):
            run.record(100 + second, query, 1.0, second < 100 * share)
    return run


@pytest.mark.parametrize(
    ("auto", "fixed", "holds"),
    [
        ({"alert": 1.0, "history": 0.9}, {"alert": 0.97, "history": 0.5}, True),
        ({"alert": 0.9, "history": 1.0}, {"alert": 0.97, "history": 0.5}, False),
        ({"alert": 0.96, "history": 0.6}, {"alert": 1.0, "history": 0.6}, False),
    ],
    ids=["better", "misses a spec that can be met", "a fixed policy is ahead"],
)
def test_the_verdict_needs_all_reachable_specs_and_the_best_day(
    auto: dict[str, float], fixed: dict[str, float], holds: bool
) -> None:
    found = outcome(
        "day", "test", {"auto": [day(**auto)], "fifo": [day(alert=0.1, history=0.1)], "cqc": [day(**fixed)]}, {}
    )
    assert found.holds == holds
    assert found.measured["best_fixed"] == "cqc"


def test_the_first_seconds_do_not_count() -> None:
    run = DayRun()
    run.record(3, "alert", 9.0, False)
    run.record(30, "alert", 1.0, True)
    assert run.shares() == {"alert": 1.0}


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_live_streams_bring_the_rows_of_the_script(speed: float) -> None:
    for stream in ("events", "clicks", "visits"):
        seconds = list(DayArrivals(stream, speed).blocks(np.random.default_rng(0)))
        assert len(seconds) == WARM_UP + DAY / speed
        for number, moments in enumerate(seconds):
            now = max(0.0, (number - WARM_UP) * speed)
            assert len(moments) == rate(stream, now)
            assert all(number <= moment < number + 1 for moment in moments)
    assert rate("visits", COMES - 1) == rate("visits", GOES) == 0 < rate("visits", COMES)


def test_rows_of_the_slow_time_are_an_effort_in_one_stream() -> None:
    script = np.array([SLOW_FROM - 1.0, SLOW_FROM, SLOW_UNTIL - 1.0, SLOW_UNTIL])
    arriving = ArrivingRows(0, script + WARM_UP, pa.array([0] * 4, EVENT_TIME))
    efforts = {s: DayRows(s, 1.0).rows(arriving, ColumnGenerators(0, s))[2].to_pylist() for s in ("clicks", "events")}
    assert efforts == {"clicks": [1.0, SLOWER, SLOWER, 1.0], "events": [1.0] * 4}


@pytest.mark.slow
def test_the_simulated_day_with_two_fixed_policies() -> None:
    """One seed of `headgate bench day`."""
    from headgate.bench.day import run_day

    found = outcome("day", "test", {policy: [run_day(policy, 1)] for policy in ("auto", "cqc", "fifo")}, {})
    assert found.holds
    assert found.measured["reachable_specs"] >= 2
