"""AMoS at work: every candidate first runs once, the spec may change while it runs, the learners choose."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from headgate.papers.amos import plans
from headgate.scheduling import PolicyError, Topology, View, policy
from headgate.scheduling.amos import LEARNERS, Amos, ObjectiveWeights, learner
from headgate.scheduling.amos.learners import RouletteWheel
from headgate.simulation import ChangingPoisson, OperatorModel, Simulation

TOPOLOGY = Topology.of({"a": ["s"], "b": ["a"], "c": ["b"]})
MODELS = {"a": OperatorModel(0.004, 0.8), "b": OperatorModel(0.008, 0.5), "c": OperatorModel(0.01)}
ARRIVALS = {"s": ChangingPoisson((30, 110), until=120.0, draw=True)}


def amos(text: str) -> Amos:
    found = policy(text)
    assert isinstance(found, Amos)
    return found


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_first_every_candidate_runs_once(name: str) -> None:
    chosen = amos(f"amos:interval=1s,learner={name},policies=rr+fifo+mtiq+chain")
    Simulation(TOPOLOGY, MODELS, ARRIVALS, chosen, until=10.0).run()
    assert [ran for _, ran in chosen.history[:4]] == ["rr", "fifo", "mtiq", "chain"]
    # A candidate runs at least the interval.
    moments = [moment for moment, _ in chosen.history]
    assert min(later - earlier for earlier, later in pairwise(moments)) >= 1.0 - 1e-9


def test_the_spec_may_change_while_it_runs() -> None:
    """On the plan of 002 Fig. 4(b), FIFO has the shortest delays and Chain the shortest queues."""
    chosen = amos(
        "amos:interval=2s,learner=controlled,policies=fifo(rows=1)+chain(queues=every),weights=delay*1,seed=3"
    )
    topology = Topology.of(plans.INPUTS)
    arrivals = {name: ChangingPoisson(plans.RATES, every=5.0, until=400.0, draw=True) for name in topology.streams}
    simulation = Simulation(topology, plans.MODELS, arrivals, chosen, switch=plans.SWITCH, seed=1, tuples="whole")
    shares: list[dict[str, float]] = []
    taken = {"fifo": 0, "chain": 0}
    original = chosen.refresh

    def watched(view: View, now: float) -> bool:
        if now >= 200.0 and not shares:
            shares.append(dict(taken))
            chosen.spec = ObjectiveWeights.of({"queue": 1.0})
        taken[chosen.current.name] += 1
        return original(view, now)

    chosen.refresh = watched  # type: ignore[method-assign]
    result = simulation.run()
    assert not result.unprocessed
    before = shares[0]["chain"] / sum(shares[0].values())
    after = (taken["chain"] - shares[0]["chain"]) / (sum(taken.values()) - sum(shares[0].values()))
    assert after > before + 0.2


def test_scores_follow_a_new_spec_at_once() -> None:
    chosen = amos("amos:weights=delay*1,policies=fifo+chain,interval=1s")
    view = View.of(TOPOLOGY)
    performance = view.performance
    # FIFO: little delay, long queues; then Chain: much delay, short queues.
    performance.results, performance.delay, performance.queued_rows = 10.0, 1.0, 100.0
    chosen.refresh(view, 1.0)
    performance.results, performance.delay, performance.queued_rows = 20.0, 11.0, 110.0
    chosen.refresh(view, 2.0)
    first, second = chosen.score(0), chosen.score(1)
    assert first is not None
    assert second is not None
    assert first >= second
    chosen.spec = ObjectiveWeights.of({"queue": 1.0})
    first, second = chosen.score(0), chosen.score(1)
    assert first is not None
    assert second is not None
    assert second > first


def test_the_wheel_turns_in_proportion_to_the_scores() -> None:
    random = Random(1)
    wheel = RouletteWheel()
    drawn = [wheel.choose({"a": 1.5, "b": 0.5}, random) for _ in range(4000)]
    assert drawn.count("a") / 4000 == pytest.approx(0.75, abs=0.03)
    assert wheel.choose({"a": 0.0, "b": 0.0}, random) in ("a", "b")


@pytest.mark.parametrize("name", ["ucb", "thompson"])
def test_a_bandit_finds_the_better_candidate_and_notices_a_change(name: str) -> None:
    random, chosen = Random(1), learner(name)
    scores = {"a": 1.0, "b": 1.0}

    def play(good: str, steps: int) -> float:
        hits = 0
        for _ in range(steps):
            taken = chosen.choose(scores, random)
            chosen.learn(taken, random.gauss(1.4 if taken == good else 0.8, 0.2))
            hits += taken == good
        return hits / steps

    for candidate in scores:
        chosen.learn(candidate, 1.0)
    assert play("a", 200) > 0.8
    assert play("b", 300) > 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ObjectiveWeights.of({"dealy": 1.0}), "unknown objective 'dealy' in the spec; did you mean 'delay'?"),
        (lambda: ObjectiveWeights.of({}), "the spec needs at least one objective with a weight above zero"),
        (lambda: learner("whel"), "unknown learner 'whel'; did you mean 'wheel'?"),
    ],
)
def test_wrong_specs_and_learners_are_refused(make: object, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == message
