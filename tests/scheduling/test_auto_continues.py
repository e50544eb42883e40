"""What policy `auto` keeps of what it has learned when the run-time optimizer changes its parameters."""

from __future__ import annotations

import json

from headgate.control.setting import Setting
from headgate.scheduling import policy
from headgate.scheduling.amos import Auto


def learned(made: Auto, cls: str = "critical") -> dict[str, float | None]:
    amos = made.inner_of(cls)
    return {amos.policies[place].name: amos.score(place) for place in range(len(amos.policies))}


def with_scores() -> Auto:
    made = policy("auto")
    assert isinstance(made, Auto)
    amos = made.inner_of("critical")
    for place, name in enumerate(amos._names):
        amos._scores.update(name, {"delay": 1.0 + place})
    return made


def follow(before: Auto, setting: Setting, base: str = "auto") -> Auto:
    made = policy(setting.policy_text(base))
    assert isinstance(made, Auto)
    made.continues(before)
    return made


def test_scores_come_back_with_the_candidates() -> None:
    first = with_scores()
    known = learned(first)
    assert None not in known.values()
    fixed = follow(first, Setting(policy="fifo"))
    assert set(learned(fixed)) == {"fifo"}
    shared = follow(fixed, Setting(policy="fifo", shares={"critical": 2.0}))
    again = follow(shared, Setting(shares={"critical": 2.0}))
    assert learned(again) == known


def test_scores_come_back_after_a_restart_in_between() -> None:
    first = with_scores()
    fixed = follow(first, Setting(policy="fifo"))
    restored = policy("auto:policies=fifo")
    assert isinstance(restored, Auto)
    restored.restore(json.loads(json.dumps(fixed.state())))
    assert learned(follow(restored, Setting())) == learned(first)


def test_another_learner_begins_anew() -> None:
    made = policy("auto:learner=wheel")
    assert isinstance(made, Auto)
    made.continues(with_scores())
    assert set(learned(made).values()) == {None}


def test_a_larger_share_of_a_class_multiplies_the_declared_one() -> None:
    base = "auto:shares=critical*3+report*0.5"
    made = follow(with_scores(), Setting({"critical": 2.0}), base)
    assert dict(made.shares) == {"critical": 6.0, "report": 0.5}
    assert dict(follow(made, Setting(), base).shares) == {"critical": 3.0, "report": 0.5}
