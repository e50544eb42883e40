"""CQC: quotas, negative credit, shared operators (004 §4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling import Topology, Units, View, policy
from headgate.scheduling.cqc import ClassSelector, quotas, uses
from headgate.simulation import Constant, Operator, Simulation, simulate


def test_the_quotas_of_the_paper() -> None:
    assert quotas([6, 3, 1], 20) == [12, 6, 2]


def overloaded(priorities: list[float], costs: list[float], **options: float) -> dict[str, float]:
    """Busy seconds per class when every class always has work."""
    names = [f"c{n}" for n in range(len(priorities))]
    topology = Topology.of(
        {f"o{n}": [f"s{n}"] for n in names},
        queries={f"q{n}": (f"o{n}", n) for n in names},
        classes=dict(zip(names, priorities, strict=True)),
    )
    models = {f"o{n}": Operator(cost) for n, cost in zip(names, costs, strict=True)}
    arrivals = {f"s{n}": Constant(1.5 / cost) for n, cost in zip(names, costs, strict=True)}
    result = simulate(topology, models, arrivals, "cqc:k=20ms", until=options.get("until", 10.0))
    return {n: result.processed[f"o{n}"] * cost for n, cost in zip(names, costs, strict=True)}


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.lists(st.sampled_from([0.001, 0.003, 0.010, 0.050]), min_size=4, max_size=4),
)
def test_quotas_hold_over_a_long_window_within_one_grant(priorities: list[int], costs: list[float]) -> None:
    until = 2.0
    spent = overloaded([float(p) for p in priorities], costs[: len(priorities)], until=until)
    total = sum(spent.values())
    for (name, seconds), priority, cost in zip(spent.items(), priorities, costs, strict=False):
        # One grant of any class may be under way at the end, and the round may be cut anywhere.
        slack = cost + max(costs) + 0.02
        assert abs(seconds - total * priority / sum(priorities)) <= slack, name


def test_what_a_class_runs_over_is_taken_off_its_next_quota() -> None:
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 3, "N": 1},
    )
    view = View.of(topology)
    cqc = policy("cqc:k=4s")
    units = Units.of(topology, cqc.cut(view))
    view.queues.rows[:] = [100.0, 100.0]
    selector = cqc.selector(view, units)
    assert isinstance(selector, ClassSelector)
    grants: list[tuple[int, float]] = []
    for elapsed in (3.0, 3.0, 3.0):
        grant = selector.next(0.0)
        assert grant is not None
        grants.append((grant.unit, grant.seconds))
        selector.finished(grant.unit, 0.0, elapsed, 1, 1)
    # H has 3 s; N has 1 s and takes 3; in the next round H runs again, and N pays: 1 − (3 − 1) = −1.
    assert grants == [(0, 3.0), (1, 1.0), (0, 3.0)]
    assert selector.credit[1] == -1.0
    # N pays 1 s a round: H runs in this round and the next, then N is back.
    order = []
    for _ in range(3):
        grant = selector.next(0.0)
        assert grant is not None
        order.append(grant.unit)
        selector.finished(grant.unit, 0.0, grant.seconds, 1, 1)
    assert order == [0, 0, 1]


def test_a_shared_operator_runs_in_the_highest_class_and_is_charged_by_use() -> None:
    topology = Topology.of(
        {"shared": ["s"], "fire": ["shared"], "log1": ["shared"], "log2": ["shared"]},
        queries={"fire": ("fire", "H"), "log1": ("log1", "N"), "log2": ("log2", "N")},
        classes={"H": 6, "N": 1},
    )
    view = View.of(topology)
    units = Units.of(topology, policy("cqc").cut(view))
    assert [topology.classes[unit.cls].name for unit in units.units] == ["H", "H", "N", "N"]
    assert uses(topology, units)[0] == pytest.approx({0: 1 / 3, 1: 2 / 3})


def test_an_inner_cut_never_mixes_classes() -> None:
    topology = Topology.of(
        {"shared": ["s"], "fire": ["shared"], "log": ["shared"]},
        queries={"fire": ("fire", "H"), "log": ("log", "N")},
        classes={"H": 6, "N": 1},
    )
    view = View.of(topology)
    cut = policy("cqc:inner=path").cut(view)
    units = Units.of(topology, cut)
    assert {topology.names(unit.operators) for unit in units.units} == {("shared", "fire"), ("log",)}


def test_cqc_serves_the_high_class_first_and_starves_nobody() -> None:
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 9, "N": 1},
    )
    models = {"h": Operator(0.001, 0.1), "n": Operator(0.001)}
    arrivals = {"s": Constant(300, rows=300), "t": Constant(2000, rows=2000)}
    fair = Simulation(topology, models, arrivals, "cqc:k=10ms").run()
    rate = Simulation(topology, models, arrivals, "hr").run()
    assert fair.latency("hq").mean < rate.latency("hq").mean / 3
    assert fair.latency("nq").count == 2000
