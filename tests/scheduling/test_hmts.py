"""HMTS: queue placement (000 §5), threads and their priorities (000 §4.2)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given

from headgate.scheduling import Statistics, Topology, Units, View, policy
from headgate.scheduling.hmts import Load, ThreadSelector, capacities, capacity, loads, place_queues
from headgate.simulation import Constant, OperatorModel, simulate
from tests.simulation.random_graphs import Case, cases


def test_capacity_is_d_minus_c() -> None:
    assert capacity([Load(1, 10), Load(2, 10)]) == pytest.approx(10 / 2 - 3)
    assert capacity([Load(1, inf)]) == inf


def test_an_expensive_aggregation_is_decoupled() -> None:
    # Fig. 5: cheap unary operators stay together, the aggregation gets a queue.
    topology = Topology.of({"a": ["s"], "b": ["a"], "p": ["b"], "agg": ["p"], "q": ["p"]})
    given_loads = [Load(1, 100), Load(1, 100), Load(1, 100), Load(90, 100), Load(1, 100)]
    units = Units.of(topology, place_queues(topology, given_loads))
    assert {topology.names(unit.operators) for unit in units.units} == {("a", "b", "p", "q"), ("agg",)}


def test_the_producer_with_the_most_capacity_is_joined_first() -> None:
    topology = Topology.of({"slow": ["s"], "quick": ["t"], "join": ["slow", "quick"]})
    given_loads = [Load(40, 100), Load(1, 100), Load(30, 100)]
    units = Units.of(topology, place_queues(topology, given_loads))
    assert {topology.names(unit.operators) for unit in units.units} == {("slow",), ("quick", "join")}


@given(cases(operators=12))
def test_no_virtual_operator_of_several_operators_stalls(case: Case) -> None:
    view = View.of(case.topology)
    for operator in range(len(case.topology.operators)):
        view.statistics.expect(operator, cost=0.01 * (operator + 1), selectivity=1, rate=1 + operator % 3)
    given_loads = loads(view)
    cut = place_queues(case.topology, given_loads)
    units = Units.of(case.topology, cut)
    sizes: dict[int, int] = {}
    for component in units.component_of:
        sizes[component] = sizes.get(component, 0) + 1
    order = list(dict.fromkeys(units.component_of))
    for component, room in zip(order, capacities(case.topology, cut, given_loads), strict=True):
        assert sizes[component] == 1 or room >= -1e-12


def test_placement_moves_only_when_capacity_has_drifted() -> None:
    topology = Topology.of({"a": ["s"], "b": ["a"]})
    statistics = Statistics(topology)
    view = View.of(topology, statistics)

    def state(cost: float) -> None:
        for operator in range(2):
            statistics.expect(operator, cost=cost, selectivity=1, rate=1)

    chosen = policy("hmts:hysteresis=0.2")
    state(0.2)
    assert chosen.cut(view).queued == {0}
    state(0.24)
    assert not chosen.refresh(view, 5.0)
    state(0.5)  # 0.5 − 1.0 < 0: the virtual operator stalls
    assert chosen.refresh(view, 10.0)
    assert chosen.cut(view).queued == {0, 1}
    state(0.24)  # there is room again, but not with a margin
    assert not chosen.refresh(view, 15.0)
    state(0.1)
    assert chosen.refresh(view, 20.0)
    assert chosen.cut(view).queued == {0}


def test_threads_age() -> None:
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 6, "N": 1},
    )
    view = View.of(topology)
    chosen = policy("ots:aging=1")
    units = Units.of(topology, chosen.cut(view))
    view.queues.rows[:] = [9.0, 9.0]
    view.queues.oldest[:] = [0.0, 0.0]
    selector = chosen.selector(view, units)
    assert isinstance(selector, ThreadSelector)
    order = []
    for now in range(8):
        grant = selector.next(float(now))
        assert grant is not None
        order.append(grant.unit)
        selector.finished(grant.unit, now + 1.0, 1.0, 1, 1)
    # H has 5 more than N, so N waits for 5 s and then some.
    assert order[:5] == [0] * 5
    assert 1 in order


def two_threads(text: str) -> tuple[ThreadSelector, View]:
    """A thread of priority 6 (unit 0) and one of priority 1 (unit 1), with nothing to do."""
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 6, "N": 1},
    )
    view = View.of(topology)
    chosen = policy(text)
    selector = chosen.selector(view, Units.of(topology, chosen.cut(view)))
    assert isinstance(selector, ThreadSelector)
    return selector, view


def fill(selector: ThreadSelector, view: View, unit: int, rows: float) -> None:
    view.queues.rows[unit], view.queues.oldest[unit] = rows, 0.0
    selector.arrived(unit)


def test_a_thread_gives_way_after_its_slice() -> None:
    """A long train of the low thread is broken up: the high thread, ready meanwhile, is next."""
    selector, view = two_threads("ots:slice=10ms,aging=1")
    fill(selector, view, 1, 1e6)
    grant = selector.next(0.0)
    assert grant is not None
    assert (grant.unit, grant.seconds) == (1, 0.01)
    fill(selector, view, 0, 5)
    assert selector.next(0.005) == (0, inf, 0.01)
    selector.finished(1, 0.01, 0.01, 100, 0)
    view.queues.rows[0], view.queues.oldest[0] = 0.0, inf
    selector.finished(0, 0.012, 0.007, 5, 0)
    following = selector.next(0.012)
    assert following is not None
    assert following.unit == 1


def test_the_slice_of_the_inner_policy_counts_if_it_is_shorter() -> None:
    selector, view = two_threads("ots:slice=10ms,inner=rr(quantum=2ms)")
    fill(selector, view, 0, 1)
    grant = selector.next(0.0)
    assert grant is not None
    assert grant.seconds == 0.002


def waits(text: str, rounds: int = 4000) -> float:
    """The longest that the low thread waits while the high one always has work, in slices of 0.1 s."""
    selector, view = two_threads(text)
    for unit in (0, 1):
        fill(selector, view, unit, 1e9)
    now, since, longest = 0.0, 0.0, 0.0
    for _ in range(rounds):
        grant = selector.next(now)
        assert grant is not None
        now += 0.1
        if grant.unit == 1:
            longest = max(longest, now - 0.1 - since)
            since = now
        selector.finished(grant.unit, now, 0.1, 1, 1)
    return longest


@pytest.mark.parametrize("aging", [0.5, 1, 5])
def test_a_waiting_thread_ages(aging: float) -> None:
    # The high thread has 5 more: it is made up after 5/aging seconds, and no later than a slice after that.
    assert waits(f"ots:aging={aging},slice=100ms") == pytest.approx(5 / aging, abs=0.11)


def test_a_priority_may_change_while_the_thread_waits() -> None:
    selector, view = two_threads("ots")
    for unit in (0, 1):
        fill(selector, view, unit, 5)
    selector.prioritize(1, 9.0)
    first = selector.next(0.0)
    assert first is not None
    assert first.unit == 1
    assert selector.priorities == [6.0, 9.0]


def specified(latency: float, classes: tuple[str, str] = ("N", "N")) -> tuple[ThreadSelector, View]:
    """Two threads, of which the second serves a query with a latency spec."""
    topology = Topology.of(
        {"a": ["s"], "b": ["t"]},
        queries={"aq": ("a", classes[0]), "bq": ("b", classes[1])},
        classes={"H": 6, "N": 1},
    )
    first, second = topology.queries
    topology = Topology(topology.operators, topology.kinds, topology.edges, (first, replace(second, latency=latency)))
    view = View.of(topology)
    chosen = policy("ots:aging=1,slice=100ms")
    selector = chosen.selector(view, Units.of(topology, chosen.cut(view)))
    assert isinstance(selector, ThreadSelector)
    return selector, view


def test_a_spec_raises_the_priority_of_a_thread_as_its_rows_wait() -> None:
    selector, view = specified(latency=0.5)
    for unit in (0, 1):
        fill(selector, view, unit, 5)
    view.queues.oldest[1] = 9.9
    first = selector.next(10.1)
    assert first is not None
    assert first.unit == 1, "two fifths of the latency are more than ten seconds of another thread's rows"
    assert selector.priorities == pytest.approx([1.0, 1.4])
    view.queues.rows[1], view.queues.oldest[1] = 0.0, inf
    selector.finished(1, 10.2, 0.1, 5, 5)
    selector.next(10.3)
    assert selector.priorities == [1.0, 1.0], "nothing waits any more"


def test_a_spec_does_not_overtake_a_class() -> None:
    selector, view = specified(latency=0.001, classes=("H", "N"))
    for unit in (0, 1):
        fill(selector, view, unit, 5)
    first = selector.next(100.0)
    assert first is not None
    assert first.unit == 0
    assert selector.priorities[1] < 2


def test_a_spec_that_is_always_missed_starves_nobody() -> None:
    """Rows of one thread are always late: it is ahead by less than 1, which a second of aging makes up."""
    selector, view = specified(latency=0.001)
    for unit in (0, 1):
        fill(selector, view, unit, 1e9)
    now, since, longest, runs = 10.0, 10.0, 0.0, [0, 0]
    for _ in range(2000):
        grant = selector.next(now)
        assert grant is not None
        now += 0.1
        runs[grant.unit] += 1
        if grant.unit == 0:
            longest, since = max(longest, now - since), now
        selector.finished(grant.unit, now, 0.1, 1, 1)
    assert longest < 1.3
    assert runs[1] > 5 * runs[0] > 0


def test_a_high_thread_waits_no_longer_than_a_slice_for_a_low_one() -> None:
    topology = Topology.of(
        {"h": ["s"], "n": ["t"]},
        queries={"hq": ("h", "H"), "nq": ("n", "N")},
        classes={"H": 6, "N": 1},
    )
    models = {"h": OperatorModel(0.001), "n": OperatorModel(0.001)}
    arrivals = {"s": Constant(10, rows=50), "t": Constant(900, rows=4000)}
    worst = {
        slice_: simulate(topology, models, arrivals, f"ots:slice={slice_}").latency("hq").max
        for slice_ in ("5ms", "inf")
    }
    # Its own millisecond, the slice, and the row under way when it ends.
    assert worst["5ms"] <= 0.007 + 1e-9
    assert worst["inf"] >= worst["5ms"]


def test_two_threads_use_two_processors_and_gts_uses_one() -> None:
    topology = Topology.of({"cheap": ["s"], "expensive": ["cheap"]})
    models = {"cheap": OperatorModel(0.001), "expensive": OperatorModel(0.009)}
    arrivals = {"s": Constant(100, rows=100)}
    many = simulate(topology, models, arrivals, "ots", processors=2)
    one = simulate(topology, models, arrivals, "gts", processors=2)
    assert many.idle + many.busy == pytest.approx(2 * many.end)
    assert many.latency().mean < one.latency().mean


def test_without_queues_the_source_slows_down() -> None:
    # 000 §6.3: a source whose thread runs an operator that cannot keep pace delivers at the operator's pace.
    topology = Topology.of({"a": ["s"]})
    arrivals = {"s": Constant(100, rows=300)}
    slow = simulate(topology, {"a": OperatorModel(0.02)}, arrivals, "di")
    assert slow.input_rate("s")[1] == pytest.approx(50, abs=1)
    queued = simulate(topology, {"a": OperatorModel(0.02)}, arrivals, "di:sources=queued")
    assert queued.input_rate("s")[1] == pytest.approx(100, abs=1)
