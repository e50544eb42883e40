"""What a policy has learned as data: a policy that takes it over goes on as the first would have."""

from __future__ import annotations

import json
from random import Random

import pytest

from headgate.scheduling import Policy, Topology, View, policies, policy
from headgate.scheduling.amos import LEARNERS, Amos, ObjectiveWeights
from headgate.scheduling.registry import described

TOPOLOGY = Topology.of({"a": ["s"], "b": ["a"], "c": ["b"]})
INNER = "amos(interval=1s,policies=rr+fifo+threshold+chain,learner={})"


def _lived(found: Policy, view: View, random: Random, begin: int, end: int) -> list[bool]:
    """Lets a policy see intervals of random results; gives what it answers."""
    answers = []
    for now in range(begin, end):
        view.performance.results += random.randint(0, 20)
        view.performance.delay += random.random() * 50
        view.performance.queued_rows += random.random() * 1000
        view.performance.queued_bytes += random.random() * 1e6
        view.queues.memory = random.random() * 1.2e8
        for edge in range(len(view.queues.rows)):
            view.queues.rows[edge] = float(random.randint(0, 50))
        answers.append(found.refresh(view, float(now)))
    return answers


def _amos(found: Policy) -> Amos:
    inner = getattr(found, "inner", found)
    inner = inner[0] if isinstance(inner, tuple) else inner
    assert isinstance(inner, Amos)
    return inner


def _restored(found: Policy, text: str) -> Policy:
    again = policy(text)
    again.restore(json.loads(json.dumps(found.state(), allow_nan=False)))
    return again


@pytest.mark.parametrize("learner", sorted(LEARNERS))
@pytest.mark.parametrize("around", ["{}", "cqc:inner={}", "gts:inner={}"])
@pytest.mark.parametrize("moment", [1, 3, 40])
def test_it_goes_on_as_if_it_had_not_been_saved(learner: str, around: str, moment: int) -> None:
    text = around.format(INNER.format(learner))
    first, view, random = policy(text), View.of(TOPOLOGY), Random(5)
    _lived(first, view, random, 1, moment)
    if moment == 40:
        _amos(first).spec = ObjectiveWeights.of({"queue": 0.5, "delay": 0.5})
    second = _restored(first, text)
    assert described(second) == described(first)
    state = random.getstate()
    before = view.performance.copy()
    answers = _lived(first, view, random, moment, 90)
    random.setstate(state)
    view.performance = before
    assert _lived(second, view, random, moment, 90) == answers
    assert _amos(second).history[-40:] == _amos(first).history[-40:]
    assert len({ran for _, ran in _amos(second).history}) == 4
    assert second.state() == first.state()


def test_a_saved_history_stays_short() -> None:
    text = "amos:interval=1s"
    found = policy(text)
    _lived(found, View.of(TOPOLOGY), Random(1), 1, 2000)
    assert len(_amos(found).history) > 1000
    # The learner's regression has a fixed size; all 2,000 selections would take more than 40,000 characters.
    assert len(json.dumps(found.state())) < 15_000
    assert _amos(_restored(found, text)).history == _amos(found).history[-100:]


def test_memory_stays_first_until_there_is_enough_again() -> None:
    text = "threshold:limit=100,low=0.5"
    found, view = policy(text), View.of(TOPOLOGY)
    view.queues.memory = 101
    assert found.refresh(view, 1.0)
    again = _restored(found, text)
    view.queues.memory = 60
    assert not again.refresh(view, 2.0), "a fresh policy would put latency first"
    view.queues.memory = 40
    assert again.refresh(view, 3.0)


@pytest.mark.parametrize("name", sorted(policies()))
def test_every_policy_has_a_description_and_a_state(name: str) -> None:
    found = policy(name)
    assert _restored(found, name).state() == found.state()
    assert described(policy(name)) == described(found)


def test_a_description_has_all_parameters_and_nothing_learned() -> None:
    text = "cqc:inner=amos(seed=3),k=100ms"
    found = policy(text)
    before = described(found)
    assert before != described(policy("cqc:inner=amos(seed=4),k=100ms"))
    assert before != described(policy("cqc:inner=amos(seed=3),k=200ms"))
    _lived(found, View.of(TOPOLOGY), Random(1), 1, 50)
    assert described(found) == before
