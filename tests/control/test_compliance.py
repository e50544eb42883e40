"""Whether specs are met: percentiles over a window, tolerance, margins, and the share of time."""

from __future__ import annotations

import pytest

from headgate.cli.live_view import line, screen, spec_text
from headgate.control.compliance import Compliance, Measured, judged
from headgate.graph.specs import Spec
from headgate.operators.batch import Arrival
from headgate.runtime.latency import RecentLatency

HALF_A_SECOND = Spec(latency=500_000, tolerance=0.1)


@pytest.mark.parametrize(
    ("measured", "met", "margin"),
    [(0.4, True, 0.2), (0.54, True, -0.08), (0.56, False, -0.12), (None, None, None)],
)
def test_latency_with_tolerance(measured: float | None, met: bool | None, margin: float | None) -> None:
    verdict = judged(HALF_A_SECOND, Measured(measured))
    assert verdict["met"] is met
    assert verdict["latency"]["met"] is met
    assert verdict["latency"]["asked"] == 0.5
    assert verdict["latency"]["margin"] == (None if margin is None else pytest.approx(margin))


def test_rows_that_wait_too_long_miss_a_spec_before_they_are_answered() -> None:
    assert judged(HALF_A_SECOND, Measured(None, oldest=0.3))["met"] is None
    assert judged(HALF_A_SECOND, Measured(None, oldest=0.7))["met"] is False
    assert judged(HALF_A_SECOND, Measured(0.1, oldest=0.7))["latency"]["measured"] == 0.7


def test_all_demands_must_be_met() -> None:
    spec = Spec(latency=500_000, tolerance=0.5, memory=1000, accuracy=0.9)
    assert judged(spec, Measured(0.1, memory=1400, shed=0.1))["met"] is True
    assert judged(spec, Measured(0.1, memory=1600, shed=0.1))["memory"]["met"] is False
    assert judged(spec, Measured(0.1, memory=1600, shed=0.1))["met"] is False
    assert judged(spec, Measured(0.1, memory=10, shed=0.2))["accuracy"]["margin"] == pytest.approx(-0.1)


def test_the_share_of_time_counts_from_observation_to_observation() -> None:
    compliance, specs = Compliance(), {"q": HALF_A_SECOND}
    assert compliance.observe(0.0, specs, {"q": Measured(9.0)})["q"]["share_met"] is None
    assert compliance.observe(3.0, specs, {"q": Measured(0.1)})["q"]["share_met"] == 1.0
    assert compliance.observe(4.0, specs, {"q": Measured(0.9)})["q"]["share_met"] == 0.75
    assert compliance.observe(9.0, specs, {"q": Measured(None)})["q"]["share_met"] == 0.75, "nothing to judge"
    assert compliance.observe(10.0, {"q": Spec(latency=1)}, {"q": Measured(0.1)})["q"]["share_met"] is None
    assert compliance.observe(11.0, {}, {}) == {}


def test_a_window_forgets_what_is_older() -> None:
    recent = RecentLatency(10.0)
    for second in range(20):
        recent.add(second + 0.5, Arrival.at(second + (0.4 if second < 10 else -0.5), 100))
    assert recent.whole(19.6).worst == pytest.approx(1.0)
    assert recent.whole(19.6).percentile(0.05) == pytest.approx(1.0, rel=0.05), "the first ten seconds are gone"
    assert recent.whole(25.0).rows == 400
    assert recent.whole(99.0).rows == 0


def test_the_live_view_shows_specs_and_objectives() -> None:
    verdict = {**judged(HALF_A_SECOND, Measured(0.7)), "share_met": 0.5}
    assert spec_text(verdict) == "700 ms of 500 ms, met 50%"
    latency = {"mean": 0.1, "p50": 0.1, "p99": 0.2, "worst": 0.3}
    query = {"class": "c", "state": "running", "error": None, "published": 1, "latency": latency, "spec": verdict}
    metrics = {
        "policy": "cqc",
        "epochs": 1,
        "epochs_per_second": 1.0,
        "waiting": 0,
        "dead_letters": {},
        "queries": {"q": query, "other": {**query, "spec": None}},
        "classes": {"c": {"priority": 1.0, "latency": latency}},
        "objectives": {"delay": {"weight": 0.7, "measured": 0.1}, "output": {"weight": 0.0, "measured": 1.0}},
    }
    assert "specs 0 of 1 met · objectives delay 70%" in line(metrics)
    assert screen(metrics, 20).renderables


def test_a_pause_does_not_count_and_forgets_nothing() -> None:
    compliance, specs = Compliance(), {"q": HALF_A_SECOND}
    compliance.observe(0.0, specs, {"q": Measured(0.1)})
    compliance.observe(3.0, specs, {"q": Measured(0.1)})
    compliance.observe(4.0, specs, {"q": Measured(0.9)})
    assert compliance.observe(5.0, {}, {}) == {}
    assert compliance.observe(95.0, specs, {"q": Measured(0.9)})["q"]["share_met"] == 0.75
    assert compliance.observe(99.0, specs, {"q": Measured(0.1)})["q"]["share_met"] == 0.875
    compliance.forget("q")
    assert compliance.observe(100.0, specs, {"q": Measured(0.1)})["q"]["share_met"] is None
