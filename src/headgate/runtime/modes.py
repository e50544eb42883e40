"""The threading modes (000 §4): how the units of a graph are distributed over threads."""

from __future__ import annotations

import os
from typing import Literal, get_args

from headgate.scheduling import Policy
from headgate.scheduling.errors import closest
from headgate.scheduling.hmts import DirectInteroperability, GraphThreaded, Hmts, OperatorThreaded

Mode = Literal["policy", "direct", "graph", "operator", "hybrid"]
"""How threads are used.

- `policy`: as the policy decides; any number of threads take its grants
- `direct`: no queues; the thread that brings rows processes them (direct interoperability, DI)
- `graph`: one thread runs the whole graph under the policy (graph-threaded, GTS)
- `operator`: every operator has its own queue and thread (operator-threaded, OTS)
- `hybrid`: partitions, placed by Algorithm 1, each with its own policy, over one thread per core (HMTS)
"""

MOST_THREADS = 1024
"""More threads than this only cost memory."""


def mode_of(text: str) -> Mode:
    """The mode named by a text; ValueError with the closest name if there is none."""
    for mode in get_args(Mode):
        if text == mode:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"unknown threading mode '{text}'; {closest(text, get_args(Mode))}")


def arranged(mode: Mode, policy: Policy) -> Policy:
    """The policy that implements a mode."""
    if mode == "direct":
        return DirectInteroperability()
    if mode == "graph":
        return policy if not isinstance(policy, Hmts) else GraphThreaded(inner=policy.inner)
    if mode == "operator":
        return OperatorThreaded(inner=_inner(policy))
    if mode == "hybrid":
        return policy if type(policy) is Hmts else Hmts(inner=_inner(policy))
    return policy


def threads_for(mode: Mode, policy: Policy, operators: int, asked: int | None) -> int:
    """The number of threads in a mode; where the mode leaves it open, `asked`."""
    if mode in ("direct", "graph"):
        return 1
    if mode == "operator" or (mode == "policy" and asked is None and isinstance(policy, OperatorThreaded)):
        return max(1, min(operators, MOST_THREADS))
    if asked is not None:
        return asked
    return (os.cpu_count() or 1) if isinstance(policy, Hmts) else 1


def _inner(policy: Policy) -> tuple[Policy, ...]:
    return policy.inner if isinstance(policy, Hmts) else (policy,)
