"""Wrong policies for tests of the experiments: the ranks of all ranked policies turned round, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.view import View

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
