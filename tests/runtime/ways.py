"""The ways in which a network may run: every policy, every mode of threads, every length of train."""

from __future__ import annotations

from functools import cache

from headgate.scheduling import policies

POLICIES = sorted({cls.name for cls in policies().values()} - {"mss", "tuple-greedy"})
"""All but those that must know every tuple's cost beforehand, which only the simulator does."""

MODES = ("policy", "direct", "graph", "operator", "hybrid")

_INSIDE = {
    "amos": "amos:policies=fifo(rows={rows})+chain(rows={rows}),interval=1ms",
    "cqc": "cqc:inner=hr(rows={rows}),k=1ms",
    "gts": "gts:inner=chain(rows={rows})",
    "hmts": "hmts:inner=chain(rows={rows})",
    "ots": "ots:inner=fifo(rows={rows})",
}
"""Policies made of others: it is these that take trains."""


@cache
def takes_rows(policy: str) -> bool:
    """Whether a policy's trains can be set; without queues there are none."""
    return policy in _INSIDE or "rows" in getattr(policies()[policy], "__dataclass_fields__", {})


def with_trains(policy: str, rows: int) -> str:
    """The text of a policy whose trains have so many rows."""
    if policy in _INSIDE:
        return _INSIDE[policy].format(rows=rows)
    return f"{policy}:rows={rows}" if takes_rows(policy) else policy
