"""The learner that compares at equal load: finds the better candidate where load hides it, and beats the wheel."""

from __future__ import annotations

from random import Random

import numpy as np

from headgate.scheduling import Topology, policy
from headgate.scheduling.amos import Amos
from headgate.scheduling.amos.controlled import ControlledThompson, Situation
from headgate.simulation import ChangingPoisson, OperatorModel, simulate


def test_it_finds_the_better_candidate_behind_a_load_that_varies_far_more() -> None:
    learner, random = ControlledThompson(), Random(1)
    waiting = {"good": 0.9, "bad": 1.1}
    taken: list[str] = []
    now = Situation(10.0, 10.0, 1000.0, 1.0, 0.0)
    for step in range(200):
        chosen = ("good", "bad")[step] if step < 2 else learner.choose(dict.fromkeys(waiting, 1.0), random)
        arrived = random.choice([1.0, 100.0])
        due = (now.due / 2 + arrived) * waiting[chosen] * random.uniform(0.95, 1.05)
        after = Situation(due, due, 100 * due, due / 10, now.delivered + now.due + arrived - due)
        learner.compare(chosen, now, after, {"delay": 1.0})
        taken.append(chosen)
        now = after
    assert taken[100:].count("good") > 90


def test_the_spec_may_change_while_it_runs() -> None:
    """Earlier observations count for the new weights at once: `short` keeps queues short, `quick` delivers."""
    learner, random = ControlledThompson(), Random(1)
    before = Situation(10.0, 10.0, 1000.0, 1.0, 0.0)
    for step in range(100):
        chosen = ("quick", "short")[step % 2]
        noise = random.uniform(0.9, 1.1)
        after = (
            Situation(5 * noise, 20 * noise, 2000, 1, 5)
            if chosen == "quick"
            else Situation(20 * noise, 5 * noise, 500, 1, 1)
        )
        learner.compare(chosen, before, after, {"delay": 1.0})
    scores = {"quick": 1.0, "short": 1.0}
    assert [learner.choose(scores, random) for _ in range(5)] == ["quick"] * 5
    learner.compare("quick", before, Situation(5, 20, 2000, 1, 5), {"queue": 1.0})
    assert [learner.choose(scores, random) for _ in range(5)] == ["short"] * 5


def test_it_does_better_than_the_wheel() -> None:
    topology = Topology.of({"o1": ["s"], "o2": ["o1"], "o3": ["o2"], "o4": ["o3"]})
    models = {
        "o1": OperatorModel(0.005, 0.8),
        "o2": OperatorModel(0.01, 0.3),
        "o3": OperatorModel(0.01, 0.9),
        "o4": OperatorModel(0.02, 0.7),
    }
    arrivals = {"s": ChangingPoisson((12.0, 64.0), until=100.0, draw=True)}

    def delay(learner: str) -> float:
        text = f"amos:policies=rr+fifo(rows=1)+mtiq+chain,interval=250ms,learner={learner}"
        return float(np.mean([simulate(topology, models, arrivals, text, seed=s).latency().mean for s in range(1, 5)]))

    assert delay("controlled") < 0.9 * delay("wheel")


def test_it_has_a_name() -> None:
    chosen = policy("amos:learner=controlled")
    assert isinstance(chosen, Amos)
    assert chosen.learner == "controlled"
