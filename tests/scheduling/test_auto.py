"""The policy `auto`: each class selects its own policy, from what is measured of that class, and says why."""

from __future__ import annotations

import pytest

from headgate.scheduling import PolicyError, Topology, View, policy
from headgate.scheduling.amos import Auto
from headgate.scheduling.amos.by_class import ClassAmos
from headgate.scheduling.cut import Cut, Units
from headgate.simulation import OperatorModel, Poisson, Simulation

# In each class a chain of three operators, and one operator that both classes use.
TOPOLOGY = Topology.of(
    {
        "shared": ["s"],
        "a1": ["shared"],
        "a2": ["a1"],
        "a3": ["a2"],
        "b1": ["shared"],
        "b2": ["b1"],
        "b3": ["b2"],
    },
    queries={"a": ("a3", "critical"), "b": ("b3", "report")},
    classes={"critical": 3, "report": 1},
)
MODELS = {
    "shared": OperatorModel(0.001),
    **{name: OperatorModel(0.003, 0.6) for name in ("a1", "b1")},
    **{name: OperatorModel(0.002, 0.2) for name in ("a2", "b2")},
    **{name: OperatorModel(0.004) for name in ("a3", "b3")},
}
ARRIVALS = {"s": Poisson(75, until=60.0)}


def auto(text: str = "auto") -> Auto:
    found = policy(text)
    assert isinstance(found, Auto)
    return found


@pytest.mark.parametrize("learner", ["wheel", "controlled"])
def test_every_row_is_processed_and_every_decision_has_a_reason(learner: str) -> None:
    chosen = auto(f"auto:interval=500ms,learner={learner}")
    result = Simulation(TOPOLOGY, MODELS, ARRIVALS, chosen, seed=2).run()
    assert not result.unprocessed
    decisions = chosen.decisions()
    assert {each["subject"] for each in decisions} == {"critical", "report"}
    for each in decisions[:-2]:
        assert each["reason"]
        assert each["chosen"] != each["before"]
        assert each["intervals"] >= 1, each
        assert 0 <= each["came"]["reward"] <= 2
    tried = [each for each in decisions if "has not run yet" in each["reason"]]
    assert len(tried) == 6
    later = [each for each in decisions if each not in tried]
    assert all(set(each["scores"]) == set(later[0]["scores"]) for each in later)
    assert all("score" in each["expected"] for each in later)


def test_the_cut_of_a_class_is_that_of_its_own_candidate() -> None:
    chosen = auto("auto:policies=chain+fifo")
    view = View.of(TOPOLOGY)
    statistics = view.statistics
    for number, name in enumerate(TOPOLOGY.operators):
        expected = MODELS[name].expected([1.0])
        statistics.expect(number, cost=expected.cost, selectivity=expected.selectivity)
    chosen.inner_of("critical")._current = 1
    cut = chosen.cut(view)
    critical = {e.id for e in TOPOLOGY.edges if TOPOLOGY.operator_class[e.consumer] == 0}
    assert critical <= cut.queued == cut.queued | critical
    chain = policy("chain").cut(view).queued
    crossing = {e.id for e in TOPOLOGY.edges if TOPOLOGY.operators[e.consumer] == "b1"}
    assert cut.queued - critical == (chain - critical) | crossing
    # No unit has operators of two classes.
    for unit in Units.of(TOPOLOGY, cut).units:
        assert len({TOPOLOGY.operator_class[o] for o in unit.operators}) == 1
    assert cut != Cut.every(TOPOLOGY)


def test_a_class_is_measured_by_its_own_results_and_queues() -> None:
    amos = ClassAmos("report")
    view = View.of(TOPOLOGY)
    view.delivered = lambda: [(1000.0, 5.0), (10.0, 20.0)]
    report = [e.id for e in TOPOLOGY.edges if TOPOLOGY.operators[e.consumer].startswith("b")]
    for edge in range(len(TOPOLOGY.edges)):
        view.queues.rows[edge] = 7.0 if edge in report else 1000.0
    found = amos.measure(view, 2.0)
    assert (found.results, found.delay) == (10.0, 20.0)
    assert found.queued_rows == 2.0 * 7 * len(report) / 2


def test_an_interval_of_an_idle_engine_is_not_scored() -> None:
    chosen = auto("auto:interval=1s,policies=fifo+chain")
    view = View.of(TOPOLOGY)
    # The clock of a network does not begin at zero.
    chosen.refresh(view, 1.7e9)
    assert not chosen.decisions()
    chosen.refresh(view, 1.7e9 + 1)
    assert len(chosen.decisions()) == 2
    before = chosen.state()
    chosen.refresh(view, 1.7e9 + 3600)
    assert [c["scores"] for c in chosen.state()["classes"].values()] == [
        c["scores"] for c in before["classes"].values()
    ]


def test_what_was_learned_is_saved_with_the_decisions() -> None:
    chosen = auto("auto:interval=500ms")
    Simulation(TOPOLOGY, MODELS, ARRIVALS, chosen, seed=2, until=20.0).run()
    again = auto("auto:interval=500ms")
    again.restore(chosen.state())
    known, found = chosen.decisions(), again.decisions()
    assert found
    assert all(each in known for each in found)
    last = {each["subject"]: each for each in known}
    assert {each["subject"]: each for each in found} == last
    assert again.current() == chosen.current()


def test_it_needs_a_candidate() -> None:
    with pytest.raises(PolicyError, match="at least one candidate"):
        Auto(policies=())
