"""The command that measures scheduling decisions: its graph, and what it prints."""

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
