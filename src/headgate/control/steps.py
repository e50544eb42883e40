"""The steps that the run-time optimizer considers when a demand is missed, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.control.observation import Demand, Observation
from headgate.control.setting import AIMS, BUDGETS, CUTS, LARGEST_SHARE, POLICIES, Setting, Step

SHED_PARTS = (0.25, 0.5, 0.75, 1.0)
"""Shares of the shedding that `accuracy` allows, in the order in which they are tried."""


def candidates(seen: Observation, setting: Setting, missed: Demand) -> list[Step]:
    """The steps that may help a missed demand, the cheapest kind first."""
    found = [
        *_share(setting, missed),
        *(Step("policy", "", policy) for policy in ("", *POLICIES) if policy != setting.policy),
        *(Step("cut", "", cut) for cut in CUTS if cut != setting.cut),
        *_threads(seen, setting),
        *(_less("budget", setting.budget, BUDGETS) if seen.load.budgeted else ()),
        *(_less("pace", setting.aim, AIMS) if missed.longest is not None else ()),
        *_plans(seen, setting),
        *shedding(seen, setting),
    ]
    return sorted(found, key=lambda step: step.rank)


def _share(setting: Setting, missed: Demand) -> Iterator[Step]:
    factor = 2 * setting.shares.get(missed.cls, 1.0)
    while factor <= LARGEST_SHARE:
        yield Step("class share", missed.cls, factor)
        factor *= 2


def _threads(seen: Observation, setting: Setting) -> Iterator[Step]:
    if seen.load.threaded and setting.threads < seen.load.cores:
        yield Step("threads", "", setting.threads + 1)


def _less(kind: str, value: float, values: tuple[float, ...]) -> Iterator[Step]:
    for lower in sorted((each for each in values if each < value), reverse=True):
        yield Step(kind, "", lower)


def _plans(seen: Observation, setting: Setting) -> Iterator[Step]:
    for query, names in seen.load.alternates.items():
        for name in ("", *names):
            if name != setting.plans.get(query, ""):
                yield Step("plan", query, name)


def shedding(seen: Observation, setting: Setting) -> Iterator[Step]:
    """Steps that shed more in the lowest class that allows more; never beyond `accuracy`, and never without it."""
    allowed = {name: 1 - d.accuracy for name, d in seen.demands.items() if d.accuracy is not None and d.accuracy < 1}
    left = [name for name, most in allowed.items() if setting.shed.get(name, 0.0) < most - 1e-9]
    if not left:
        return
    lowest = min(seen.demands[name].priority for name in left)
    members = [name for name in left if seen.demands[name].priority == lowest]
    for part in SHED_PARTS:
        shares = {name: max(setting.shed.get(name, 0.0), part * allowed[name]) for name in members}
        if any(share > setting.shed.get(name, 0.0) + 1e-9 for name, share in shares.items()):
            yield Step("shedding", seen.demands[members[0]].cls, shares)


def extreme(seen: Observation, setting: Setting, missed: Demand) -> list[Setting]:
    """Settings that favour one demand as far as possible: what they do not reach is unreachable.

    All policies are tried with the present plan of the query, and the first one with its other plans.
    """
    others = [{**setting.plans, missed.query: name} for name in seen.load.alternates.get(missed.query, ())]
    choices = [*((policy, setting.plans) for policy in POLICIES), *((POLICIES[0], plans) for plans in others)]
    most = {name: 1 - d.accuracy for name, d in seen.demands.items() if d.accuracy is not None and d.accuracy < 1}
    return [
        Setting(
            shares={missed.cls: LARGEST_SHARE},
            policy=policy,
            threads=seen.load.cores,
            budget=min(BUDGETS),
            aim=min(AIMS),
            plans=plans,
            shed={name: share for name, share in most.items() if share > 0},
        )
        for policy, plans in choices
    ]
