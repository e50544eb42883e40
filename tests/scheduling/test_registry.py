"""Policies by name: parameters in text, and a clear one-line error."""

from __future__ import annotations

import pytest

from headgate.scheduling import PolicyError, Scheduler, SchedulingError, Topology, TopologyError, View, policies, policy
from headgate.scheduling.cqc import Cqc
from headgate.scheduling.policies.highest_rate import HighestNormalizedRate
from headgate.scheduling.registry import parameters
from headgate.simulation import (
    AggregateModel,
    Bursts,
    Constant,
    JoinModel,
    NormalCost,
    OperatorModel,
    Poisson,
    RecordedArrivals,
    RecordedCosts,
    Simulation,
)

EVERY = "amos aurora cqc chain chart-latency chart-memory di fifo greedy gts hmts hnr hr mss mtiq ots path rr "
EVERY += "segment simplified threshold train tuple-greedy wrr"


def test_every_policy_has_a_name_and_makes_a_selector() -> None:
    assert set(EVERY.split()) <= policies().keys()
    topology = Topology.of({"a": ["s"], "b": ["a"]})
    for name in policies():
        view = View.of(topology)
        view.oracle = Simulation(topology, {"a": OperatorModel(1), "b": OperatorModel(1)}, {"s": Constant(1)}, "rr")
        Simulation(topology, {"a": OperatorModel(1), "b": OperatorModel(1)}, {"s": Constant(1, rows=2)}, name).run()
        assert all(doc for doc in parameters(name).values())


def test_parameters_in_text() -> None:
    cqc = policy("cqc:inner=hnr(rows=5),k=1000us")
    assert isinstance(cqc, Cqc)
    assert cqc.k == pytest.approx(0.001)
    assert isinstance(cqc.inner, HighestNormalizedRate)
    assert cqc.inner.rows == 5


WRONG = {
    "chian": "unknown policy 'chian'; did you mean 'chain'?",
    "chain:row=1": "policy 'chain' has no parameter 'row'; did you mean 'rows'?",
    "chain:rows": "policy 'chain:rows': 'rows' is no parameter; write name=value",
    "chain:rows=x": "policy 'chain', parameter 'rows': 'x' is no number; write for example 10 or 10ms",
    "chain:rows=0": "policy 'chain', parameter 'rows': 0 is not above zero",
    "chain:rows=5ms": "policy 'chain', parameter 'rows': '5ms' has unit 'ms'; write a plain number",
    "rr:quantum=5m": "policy 'rr', parameter 'quantum': '5m' has unit 'm'; write a time like 10ms, 1000us or 2s",
    "simplified:gamma=2": "policy 'simplified', parameter 'gamma': 2 is not between 0 and 1",
    "greedy:of=memroy": "policy 'greedy', parameter 'of': unknown value 'memroy'; did you mean 'memory'?",
    "cqc:inner=chan": "unknown policy 'chan'; did you mean 'chain'?",
    "cqc:inner=hr(rows=1": "policy parameters 'inner=hr(rows=1' have an unbalanced parenthesis; close what you open",
    "hmts:threads=1.5": "policy 'hmts', parameter 'threads': 1.5 is no whole number",
    "amos:learner=whell": "policy 'amos', parameter 'learner': unknown value 'whell'; did you mean 'wheel'?",
    "amos:weights=dely": "unknown objective 'dely' in the spec; did you mean 'delay'?",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_policy_gives_one_clear_line(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(text)
    assert str(caught.value) == WRONG[text]


def test_mss_outside_a_simulation_is_refused() -> None:
    view = View.of(Topology.of({"a": ["s"]}))
    chosen = policy("mss")
    with pytest.raises(PolicyError, match="runs in simulation only"):
        Scheduler(chosen, view)


def test_a_cycle_is_refused() -> None:
    with pytest.raises(TopologyError) as caught:
        Topology.of({"a": ["s", "b"], "b": ["a"]})
    assert str(caught.value) == "the graph has a cycle through or before 'a', 'b'; a query graph is acyclic"


BAD = {
    "a fixed cost of 0.0 s per row is not above zero": lambda: OperatorModel(0),
    "a constant arrival process has rate -5 rows/s; give a rate above zero": lambda: Constant(-5),
    "a Poisson arrival process has rate 0 rows/s; give a rate above zero": lambda: Poisson(0),
    "an operator has selectivity -1; give zero or more": lambda: OperatorModel(1, -1),
    "a normal cost of -1 ± 0 s is not above zero": lambda: NormalCost(-1, 0),
    "recorded costs must be at least one, all above zero": lambda: OperatorModel(RecordedCosts([])),
    "recorded arrival times decrease; sort them": lambda: RecordedArrivals((2, 1)),
    "a phase of bursts has rate -1 rows/s; give a rate above zero": lambda: Bursts([(10, -1)]),
    "a join needs either a window in seconds or a window in rows": lambda: JoinModel(1, 1),
    "an aggregate needs either a window in seconds or a window in rows": lambda: AggregateModel(1),
}


@pytest.mark.parametrize("message", BAD)
def test_an_impossible_model_gives_one_clear_line(message: str) -> None:
    with pytest.raises(SchedulingError) as caught:
        BAD[message]()
    assert str(caught.value) == message


def test_a_model_or_arrival_that_is_missing_is_named() -> None:
    topology = Topology.of({"a": ["s"]})
    with pytest.raises(SchedulingError, match="operator 'a' has no model; every operator needs its own"):
        Simulation(topology, {}, {"s": Constant(1)}, "rr")
    with pytest.raises(SchedulingError, match="arrivals are given for unknown stream 't'; known: s"):
        Simulation(topology, {"a": OperatorModel(1)}, {"t": Constant(1)}, "rr")
