"""The combinations in which a network may run: policies, threading modes, train sizes."""

from __future__ import annotations

from functools import cache

from headgate.scheduling import policies

POLICIES = sorted({cls.name for cls in policies().values()} - {"mss", "tuple-greedy"})
"""All policies except those that need every tuple's cost in advance: only the simulator knows it."""

MODES = ("policy", "direct", "graph", "operator", "hybrid")

_INSIDE = {
    "amos": "amos:policies=fifo(rows={rows})+chain(rows={rows}),interval=1ms",
    "cqc": "cqc:inner=hr(rows={rows}),k=1ms",
    "gts": "gts:inner=chain(rows={rows})",
    "hmts": "hmts:inner=chain(rows={rows})",
    "ots": "ots:inner=fifo(rows={rows})",
}
"""Policies composed of others: the inner policies limit the trains."""


@cache
def takes_rows(policy: str) -> bool:
    """Whether the policy has a parameter for the size of trains; without queues there are no trains."""
    return policy in _INSIDE or "rows" in getattr(policies()[policy], "__dataclass_fields__", {})


def with_trains(policy: str, rows: int) -> str:
    """The text of a policy with trains of this many rows."""
    if policy in _INSIDE:
        return _INSIDE[policy].format(rows=rows)
    return f"{policy}:rows={rows}" if takes_rows(policy) else policy
