"""CQC: quotas, negative credit, shared operators (004 §4)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling import Topology, Units, View, policy
from headgate.scheduling.cqc import ClassSelector, class_shares, quotas
from headgate.simulation import Constant, OperatorModel, Simulation


def test_the_quotas_of_the_paper() -> None:
    assert quotas([6, 3, 1], 20) == [12, 6, 2]


def always_busy(priorities: list[int], k: float) -> ClassSelector:
    """A selector over one unit a class, each with rows without end."""
    names = [f"c{n}" for n in range(len(priorities))]
    topology = Topology.of(
        {f"o{n}": [f"s{n}"] for n in names},
        queries={f"q{n}": (f"o{n}", n) for n in names},
        classes={n: float(p) for n, p in zip(names, priorities, strict=True)},
    )
    view = View.of(topology)
    cqc = policy(f"cqc:k={k}")
    units = Units.of(topology, cqc.cut(view))
    view.queues.rows[:] = [1e9] * len(topology.edges)
    selector = cqc.selector(view, units)
    assert isinstance(selector, ClassSelector)
    return selector


short_overruns = given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4, unique=True).map(lambda p: sorted(p, reverse=True)),
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=4, max_size=4),
    st.integers(0, 1000).map(Random),
)
"""Priorities of classes, all different; the most that a grant of each overruns; a source of chance."""


@given(
    # Different priorities: the place of a class in the round is then its unit's number.
    st.lists(st.integers(1, 9), min_size=2, max_size=4, unique=True).map(lambda p: sorted(p, reverse=True)),
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, 5.0, 30.0]), min_size=4, max_size=4),
    st.integers(0, 1000).map(Random),
)
def test_quotas_hold_over_every_window(priorities: list[int], longest: list[float], random: Random) -> None:
    """One processor, and every class always has work. With T the quota of a class, s its share and g the most that a
    grant of it runs over its limit, the class has after any time t

        s·t − T(1 − s) − s·Σg  ≤  time used  ≤  s·t + T(1 − s) + g:

    what is left of a round, and one grant. So over a window of any length, anywhere, it is off by at most the two
    together, and the longer the window the closer its share is to s.
    """
    k = 10.0
    selector = always_busy(priorities, k)
    over = longest[: len(priorities)]
    shares = [p / sum(priorities) for p in priorities]
    used = [0.0] * len(priorities)
    now = 0.0
    early, late = [0.0] * len(priorities), [0.0] * len(priorities)
    for _ in range(300):
        grant = selector.next(now)
        assert grant is not None
        # A grant may end early (its rows are through), or a row may run past the limit.
        elapsed = grant.seconds * random.choice([0.3, 1.0]) + random.random() * over[grant.unit]
        now += elapsed
        used[grant.unit] += elapsed
        selector.finished(grant.unit, now, elapsed, 1, 1)
        for cls, share in enumerate(shares):
            ahead = used[cls] - share * now
            early[cls], late[cls] = max(early[cls], ahead), min(late[cls], ahead)
    for cls, share in enumerate(shares):
        part = share * k * (1 - share)
        assert early[cls] <= part + over[cls] + 1e-6
        assert -late[cls] <= part + share * sum(over) + 1e-6


@short_overruns
def test_over_whole_rounds_quotas_hold_within_one_grant(
    priorities: list[int], longest: list[float], random: Random
) -> None:
    """Rounds begin with the highest class. Up to any of them each class has used its quotas within one grant."""
    k = 20.0
    selector = always_busy(priorities, k)
    over = [min(o, turn.slice / 2) for o, turn in zip(longest, selector.turns, strict=False)]
    used = [0.0] * len(priorities)
    rounds, last = 0, len(priorities)
    for _ in range(200):
        grant = selector.next(0.0)
        assert grant is not None
        if grant.unit < last:
            # No grant runs over by a whole quota here, so no class skips a round to pay: each turn is a round.
            for cls, turn in enumerate(selector.turns):
                assert -1e-6 <= used[cls] - rounds * turn.slice <= over[cls] + 1e-6
            rounds += 1
        last = grant.unit
        elapsed = grant.seconds + random.random() * over[grant.unit]
        used[grant.unit] += elapsed
        selector.finished(grant.unit, 0.0, elapsed, 1, 1)


@short_overruns
def test_preferred_classes_get_no_more_than_their_quotas(
    priorities: list[int], longest: list[float], random: Random
) -> None:
    """However often a class is preferred, no class is off its share by more than two quotas and the overruns."""
    k = 20.0
    selector = always_busy(priorities, k)
    over = [min(o, turn.slice / 2) for o, turn in zip(longest, selector.turns, strict=False)]
    used = [0.0] * len(priorities)
    for _ in range(400):
        if random.random() < 0.5:
            selector.prefer(random.choice([0, 0, *range(len(priorities))]))
        grant = selector.next(0.0)
        assert grant is not None
        elapsed = grant.seconds * random.choice([0.1, 1.0]) + random.random() * over[grant.unit]
        used[grant.unit] += elapsed
        selector.finished(grant.unit, 0.0, elapsed, 1, 1)
        for cls, turn in enumerate(selector.turns):
            share = turn.slice / k
            assert abs(used[cls] - share * sum(used)) <= 2 * turn.slice + share * k + sum(over) + 1e-6


def test_a_preferred_class_runs_next_and_the_interrupted_one_afterwards() -> None:
    selector = always_busy([3, 2, 1], 6.0)

    def runs(seconds: float) -> int:
        grant = selector.next(0.0)
        assert grant is not None
        selector.finished(grant.unit, 0.0, seconds, 1, 1)
        return grant.unit

    assert [runs(3.0), runs(0.5)] == [0, 1]
    selector.prefer(0)
    assert runs(3.0) == 0
    # It has used its next quota early: the second class goes on, and in the next round the first pays.
    selector.prefer(0)
    assert [runs(1.5), runs(1.0)] == [1, 2]
    assert [runs(2.0), runs(1.0), runs(3.0)] == [1, 2, 0]


def test_overrun_is_deducted_from_the_next_quota() -> None:
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
    assert selector.turns[1].credit == -1.0
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
    assert class_shares(topology, units)[0] == pytest.approx({0: 1 / 3, 1: 2 / 3})


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


def test_cqc_serves_the_high_class_first_and_starves_no_class() -> None:
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 9, "N": 1},
    )
    models = {"h": OperatorModel(0.001, 0.1), "n": OperatorModel(0.001)}
    arrivals = {"s": Constant(300, rows=300), "t": Constant(2000, rows=2000)}
    fair = Simulation(topology, models, arrivals, "cqc:k=10ms").run()
    rate = Simulation(topology, models, arrivals, "hr").run()
    assert fair.latency("hq").mean < rate.latency("hq").mean / 3
    assert fair.latency("nq").count == 2000
