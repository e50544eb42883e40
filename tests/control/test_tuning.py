"""The optimizer's thread beside an engine."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.control import tuning
from headgate.control.decisions import DecisionHistory
from headgate.control.optimizer import Optimizer
from headgate.control.setting import Setting
from headgate.control.tuning import SWITCH_INTERVAL, Tuning
from tests.waiting import wait_until


def test_predictions_let_other_threads_go_on_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = sys.getswitchinterval()
    found: list[float] = []

    def tick(optimizer: Optimizer, seen: Any) -> Setting:
        found.append(sys.getswitchinterval())
        return optimizer.setting

    monkeypatch.setattr(Optimizer, "tick", tick)
    monkeypatch.setattr(tuning, "EVERY", 0.001)
    observation: Any = SimpleNamespace(demands={"alert": None})
    running = Tuning(Setting(), lambda setting: observation, lambda setting: None, DecisionHistory())
    running.start()
    try:
        wait_until(lambda: found)
    finally:
        running.close()
    assert max(found) <= min(usual, SWITCH_INTERVAL) * 1.01
    assert sys.getswitchinterval() == pytest.approx(usual)
