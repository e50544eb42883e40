"""The speed of decisions, and its growth with the number of units."""

from __future__ import annotations

import pytest

from headgate.scheduling import Units, View, policy
from headgate.simulation import speed


@pytest.mark.parametrize("text", speed.POLICIES)
def test_every_unit_of_the_measured_graph_is_one_operator(text: str) -> None:
    topology = speed.graph(50)
    view = speed.known_view(topology)
    assert isinstance(view, View)
    units = Units.of(topology, policy(text).cut(view))
    assert [len(unit.operators) for unit in units.units] == [1] * 50
    assert len({unit.cls for unit in units.units}) == 3


def test_the_command_prints_both_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SIZES", (10, 20))
    monkeypatch.setattr(speed, "decisions_per_second", lambda text: 123_456.0)
    speed.main(["rr:rows=1"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith("rr:rows=1")
    assert "123,456" in shown[1]
    assert "×" in shown[-1]


@pytest.mark.slow
@pytest.mark.parametrize("text", speed.POLICIES)
def test_a_decision_grows_no_faster_than_the_logarithm(text: str) -> None:
    few, many = (speed.seconds_per_decision(text, units) for units in (10, 10_000))
    # log 10,000 is four times log 10.
    assert many < 4 * few


@pytest.mark.slow
@pytest.mark.parametrize("text", speed.POLICIES)
def test_a_hundred_thousand_decisions_per_second(text: str) -> None:
    """On an idle processor; the expected speed is scaled by that of the reference loop."""
    scale = min(speed.turns_per_second() / speed.REFERENCE_TURNS, 1.0)
    best = max(speed.decisions_per_second(text) for _ in range(3))
    # A margin of a fifth: other load also takes the caches, which does not slow the reference loop.
    assert best > 0.8 * 100_000 * scale
