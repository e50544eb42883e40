"""Wrong policies for tests of the experiments: turned or random ranks, exchanged labels, a bad learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headgate.papers import cqc
from headgate.scheduling import Cut, View
from headgate.scheduling.amos import choice
from headgate.scheduling.amos.controlled import ControlledThompson
from headgate.scheduling.ranked import RankSelector

Spoil = Callable[[pytest.MonkeyPatch], None]


def reversed_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest rank goes first."""
    right = RankSelector._put_in_order

    def turned(self: RankSelector, view: View) -> None:
        right(self, view)
        self._order.reverse()
        for place, state in enumerate(self._order):
            state.place = place

    monkeypatch.setattr(RankSelector, "_put_in_order", turned)


def random_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of ranks is drawn anew whenever they are computed."""
    right, random = RankSelector._put_in_order, Random(1)

    def drawn(self: RankSelector, view: View) -> None:
        right(self, view)
        random.shuffle(self._order)
        for place, state in enumerate(self._order):
            state.place = place

    monkeypatch.setattr(RankSelector, "_put_in_order", drawn)


def all_the_same(module: Any, attribute: str, label: str) -> Spoil:
    """Every label of a module's table of policies stands for the policy of one of them."""

    def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
        table: Mapping[str, str] = getattr(module, attribute)
        monkeypatch.setattr(module, attribute, dict.fromkeys(table, table[label]))

    return spoil


def exchanged(module: Any, attribute: str, one: str, other: str) -> Spoil:
    """Two labels of a module's table of policies stand for each other's policy."""

    def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
        table: Mapping[str, str] = getattr(module, attribute)
        monkeypatch.setattr(module, attribute, {**table, one: table[other], other: table[one]})

    return spoil


def lowest_class_first(workload: str) -> Spoil:
    """Class H of a workload of 004 has the lowest priority."""

    def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
        right: cqc.CqcWorkload = getattr(cqc, workload)
        monkeypatch.setattr(cqc, workload, replace(right, priorities={"H": 1, "C": 2, "N": 30}))

    return spoil


def every_second_edge(view: View) -> Cut:
    """A queue on every second edge, whatever it costs."""
    return Cut(frozenset(edge.id for edge in view.topology.edges if edge.producer is None or edge.id % 2))


def every_edge(view: View) -> Cut:
    """A queue on every edge: no virtual operator joins two operators, so that none is overloaded."""
    return Cut(frozenset(edge.id for edge in view.topology.edges))


class ContraryLearner(ControlledThompson):
    """Takes the candidate that it believes to be the worst."""

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        if any(name not in self._places for name in scores):
            return super().choose(scores, random)
        effects = self._draw(random)
        return max(scores, key=lambda name: float(effects[self._places[name]]))


def contrary_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """AMoS with the paper's wheel and with our learner selects the worst candidate."""
    wrong = dict.fromkeys(("wheel", "controlled"), ContraryLearner)
    monkeypatch.setattr(choice, "LEARNERS", {**choice.LEARNERS, **wrong})


def contrary_learner_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our learner selects the worst candidate; the wheel is right."""
    monkeypatch.setattr(choice, "LEARNERS", {**choice.LEARNERS, "controlled": ContraryLearner})
