"""The policies that can run live operators; the others need figures that only a simulation has."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cache

from headgate.scheduling.errors import PolicyError
from headgate.scheduling.registry import policies, policy
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View


def check_live(text: str) -> None:
    """PolicyError if there is no such policy, or if it runs in simulation only."""
    Scheduler(policy(text), View.of(Topology.of({"operator": ["stream"]})))


@cache
def live_policies() -> dict[str, str]:
    """The policies that can run live operators, each with its one-line description."""
    found: dict[str, str] = {}
    for name, cls in policies().items():
        with suppress(PolicyError):
            check_live(name)
            found[name] = (inspect.getdoc(cls) or "").partition("\n")[0]
    return found
