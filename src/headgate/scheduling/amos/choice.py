"""The learners of AMoS by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.scheduling.amos.controlled import ControlledThompson
from headgate.scheduling.amos.learners import DiscountedUcb, Learner, RouletteWheel, Thompson
from headgate.scheduling.errors import PolicyError, closest

LEARNERS: Mapping[str, Callable[[], Learner]] = {
    "wheel": RouletteWheel,
    "ucb": DiscountedUcb,
    "thompson": Thompson,
    "controlled": ControlledThompson,
}


def learner(name: str) -> Learner:
    """A learner by name."""
    if name not in LEARNERS:
        raise PolicyError(f"unknown learner '{name}'; {closest(name, LEARNERS)}")
    return LEARNERS[name]()
