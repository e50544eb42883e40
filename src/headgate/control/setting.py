"""The settings that the run-time optimizer changes, and the steps from one to another."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.scheduling import policy
from headgate.scheduling.amos import Auto

KINDS = ("class share", "policy", "cut", "threads", "budget", "pace", "plan", "shedding")
"""The kinds of steps, the cheapest first: shares and ranks cost nothing, threads and triggers cost processor time,
another plan costs a restart of operators, and shedding costs results."""

POLICIES = ("hr", "fifo", "chain", "mtiq")
"""Policies that a class may be fixed to; empty: AMoS selects."""
CUTS = ("policy", "sources", "every")
BUDGETS = (1.0, 0.5, 0.25, 0.1)
"""Seconds that an epoch may wait for the network."""
AIMS = (0.85, 0.5, 0.0)
"""Target of the pauses between epochs, as shares of the tightest latency spec."""
LARGEST_SHARE = 16.0


@dataclass(frozen=True)
class Setting:
    """Everything that can be changed; the defaults are those of an untuned engine.

    - `shares`: factor of each class's share of the time; by default 1
    - `policy`: the policy inside the classes; empty: AMoS selects
    - `cut`: that of the policies, or at the sources only, or at every edge
    - `threads`: threads that run operators; `budget`, `aim`: see BUDGETS and AIMS
    - `plans`: for some queries, the name of another plan than the one that they started with
    - `shed`: for some queries, the share of their rows that is dropped where they enter the network
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    policy: str = ""
    cut: str = CUTS[0]
    threads: int = 1
    budget: float = BUDGETS[0]
    aim: float = AIMS[0]
    plans: Mapping[str, str] = field(default_factory=dict)
    shed: Mapping[str, float] = field(default_factory=dict)

    def limited(self, plans: Container[str], shed: Mapping[str, float]) -> Setting:
        """The setting with the plans of these queries only, and with at most these shares shed."""
        kept = {query: plan for query, plan in self.plans.items() if query in plans}
        most = {query: min(share, shed.get(query, 0.0)) for query, share in self.shed.items()}
        return replace(self, plans=kept, shed={query: share for query, share in most.items() if share > 0})

    def policy_text(self, base: str = "auto") -> str:
        """The policy that a network runs under this setting.

        >>> Setting({"critical": 2.0}, policy="fifo").policy_text()
        'auto:policies=fifo,shares=critical*2'
        >>> Setting({"critical": 2.0}).policy_text("auto:shares=critical*3+report*0.5")
        'auto:shares=critical*3+report*0.5,shares=critical*6+report*0.5'
        """
        given = [f"policies={self.policy}"] if self.policy else []
        if self.shares:
            declared = policy(base)
            known = declared.shares if isinstance(declared, Auto) else {}
            factors = {cls: known.get(cls, 1.0) * self.shares.get(cls, 1.0) for cls in {*known, *self.shares}}
            given.append("shares=" + "+".join(f"{cls}*{factor:g}" for cls, factor in sorted(factors.items())))
        if self.cut != CUTS[0]:
            given.append(f"cuts={self.cut}")
        if not given:
            return base
        return f"{base}{',' if ':' in base else ':'}{','.join(given)}"


@dataclass(frozen=True)
class Step:
    """A change of one value: its kind, the class or query that it is for, and the new value."""

    kind: str
    subject: str
    value: Any

    def applied_to(self, setting: Setting) -> Setting:
        """The setting after the step."""
        match self.kind:
            case "class share":
                return replace(setting, shares=_with(setting.shares, self.subject, self.value, 1.0))
            case "plan":
                return replace(setting, plans=_with(setting.plans, self.subject, self.value, ""))
            case "shedding":
                # All queries of a class are shed together; the value has the share of each query.
                shed = {**setting.shed, **self.value}
                return replace(setting, shed={query: share for query, share in shed.items() if share > 0})
            case "pace":
                return replace(setting, aim=self.value)
        return replace(setting, **{self.kind: self.value})

    def inverse(self, before: Setting) -> Step:
        """The step that undoes this one; `before` is the setting before this step."""
        match self.kind:
            case "class share":
                return replace(self, value=before.shares.get(self.subject, 1.0))
            case "plan":
                return replace(self, value=before.plans.get(self.subject, ""))
            case "shedding":
                return replace(self, value={query: before.shed.get(query, 0.0) for query in self.value})
            case "pace":
                return replace(self, value=before.aim)
        return replace(self, value=getattr(before, self.kind))

    def limited(self, plans: Container[str], shed: Mapping[str, float]) -> Step | None:
        """The step under the limits of `Setting.limited`; None if nothing of it is left."""
        if self.kind == "plan":
            return self if self.subject in plans else None
        if self.kind == "shedding":
            left = {query: min(share, shed[query]) for query, share in self.value.items() if query in shed}
            return replace(self, value=left) if left else None
        return self

    @property
    def text(self) -> str:
        """The new value, for people."""
        match self.kind:
            case "class share":
                return f"{self.value:g} times its priority"
            case "policy":
                return self.value or "selected by AMoS"
            case "cut":
                return {"policy": "that of the policy", "sources": "at the sources only", "every": "at every edge"}[
                    self.value
                ]
            case "threads":
                return f"{self.value} threads"
            case "budget":
                return f"{self.value:g} s an epoch"
            case "pace":
                return f"pauses aim at {self.value:.0%} of the latency" if self.value else "no pause"
            case "plan":
                return self.value or "as begun"
            case "shedding":
                return ", ".join(f"{share:.0%} of {query}" for query, share in sorted(self.value.items()))
        return str(self.value)

    @property
    def rank(self) -> int:
        """The place of its kind in KINDS."""
        return KINDS.index(self.kind)


def _with(values: Mapping[str, Any], name: str, value: Any, neutral: Any) -> dict[str, Any]:
    changed = {**values, name: value}
    return {each: known for each, known in changed.items() if known != neutral}
