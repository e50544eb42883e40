"""The errors of scheduling and simulation: one clear line each, safe to print to a user."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SchedulingError(ValueError):
    """The user's input to scheduling is wrong; the message says what, where and what to do."""


class TopologyError(SchedulingError):
    """The operators and edges do not form a graph that can be scheduled."""


class PolicyError(SchedulingError):
    """A policy's name or parameters are wrong."""


class ModelError(SchedulingError):
    """A modelled operator or an arrival process has impossible parameters."""


def closest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known name, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
