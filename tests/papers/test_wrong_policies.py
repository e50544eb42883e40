"""Every simulated experiment can fail: under a wrong policy (turned or random ranks, another algorithm) it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from random import Random

import pytest

from headgate.outcome import Outcome
from headgate.papers import amos, chart, cqc, mavstream
from headgate.papers.amos import comparison, plans
from headgate.papers.chart import outliers
from headgate.scheduling import Cut
from headgate.scheduling.amos import choice
from headgate.scheduling.amos.controlled import ControlledThompson
from tests.papers.wrong import random_ranks, reversed_ranks

# The package exports functions of the same names.
NAMES = ("burst", "decoupling", "placement")
hmts_burst, decoupling, placement = (import_module(f"headgate.papers.hmts.{name}") for name in NAMES)
SHORT = tuple((rows / 10, rate) for rows, rate in hmts_burst.PHASES)


def forget_runs() -> None:
    """Runs are cached by policy text, which does not name a patched class."""
    plans.run.cache_clear()
    mavstream._at_rate.cache_clear()


@pytest.fixture(autouse=True)
def no_cached_runs() -> Iterator[None]:
    forget_runs()
    yield
    forget_runs()


def small(name: str) -> Outcome:
    """A small version of an experiment, for which the claim holds under the right policy."""
    experiments: dict[str, Callable[[], Outcome]] = {
        "chart-memory": lambda: chart.memory(1, seeds=1, shares=(0, 20)),
        "chart-latency": lambda: chart.latency(1, seeds=2, shares=(0, 4, 20)),
        "mavstream-latency": lambda: mavstream.latency(1, 1, (100, 500)),
        "mavstream-memory": lambda: mavstream.memory(1, 1, (100, 500)),
        "mavstream-throughput": lambda: mavstream.throughput(1, 1),
        "mavstream-burst": lambda: mavstream.burst(1, 1),
        "amos-figure-2": lambda: amos.figure_2(1, seeds=3, seconds=150.0),
        "cqc-b": lambda: cqc.b(1, 1, 1500),
        "hmts-burst": lambda: hmts_burst.burst(1, draws=1, phases=SHORT),
        "hmts-placement": lambda: placement.placement(1, sizes=(10, 100), operators=500),
        "hmts-decoupling": lambda: decoupling.decoupling(1),
    }
    return experiments[name]()


@pytest.mark.parametrize("name", ["chart-memory", "mavstream-latency"])
def test_turned_ranks_are_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert small(name).holds
    forget_runs()
    reversed_ranks(monkeypatch)
    assert not small(name).holds


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["chart-latency", "mavstream-memory", "mavstream-throughput", "mavstream-burst", "amos-figure-2"]
)
@pytest.mark.parametrize("spoil", [reversed_ranks, random_ranks])
def test_turned_or_random_ranks_are_found_out(
    name: str, spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    assert not small(name).holds


def test_classes_in_the_wrong_order_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class H with the lowest priority does not gain by CQC."""
    wrong = cqc.CqcWorkload("B", cqc.B.selections, cqc.B.aggregates, cqc.B.joins, {"H": 1, "C": 2, "N": 30})
    monkeypatch.setattr(cqc, "B", wrong)
    assert not cqc.b(1, 1, 300).holds


@pytest.mark.slow
def test_the_right_order_of_classes_is_confirmed() -> None:
    assert small("cqc-b").holds


def test_a_random_placement_is_found_out() -> None:
    """Every second edge without a queue, whatever it costs."""
    right = placement.placement(1, sizes=(10, 100), operators=1000)
    assert right.holds

    def careless(view: object) -> Cut:
        topology = view.topology  # type: ignore[attr-defined]
        return Cut(frozenset(e.id for e in topology.edges if e.producer is None or e.id % 2))

    algorithms = {**placement.ALGORITHMS, placement.OURS: careless}
    assert not placement.placement(1, sizes=(10, 100), operators=1000, algorithms=algorithms).holds


@pytest.mark.slow
def test_queues_that_decouple_nothing_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoupling, "POLICIES", dict.fromkeys(decoupling.POLICIES, "di"))
    assert not decoupling.decoupling(1, elements=80_000).holds


def test_one_thread_instead_of_two_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = small("hmts-burst").measured[hmts_burst.IMPLIED]
    assert right["HMTS ends before FIFO and Chain"]
    assert right["results earlier under HMTS"]
    monkeypatch.setattr(
        hmts_burst, "POLICIES", dict.fromkeys(hmts_burst.POLICIES, hmts_burst.POLICIES[hmts_burst.FIFO])
    )
    wrong = small("hmts-burst").measured[hmts_burst.IMPLIED]
    assert not wrong["HMTS ends before FIFO and Chain"]


class _Contrary(ControlledThompson):
    """Takes the candidate that it believes to be the worst."""

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        if any(name not in self._places for name in scores):
            return super().choose(scores, random)
        effects = self._draw(random)
        return max(scores, key=lambda name: float(effects[self._places[name]]))


@pytest.mark.slow
def test_a_contrary_learner_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert amos.learners(1, seeds=4, seconds=200.0).measured["better than the wheel by"]["controlled"]["all"] > 0
    plans.run.cache_clear()
    monkeypatch.setattr(choice, "LEARNERS", {**choice.LEARNERS, "controlled": _Contrary})
    assert not amos.learners(1, seeds=4, seconds=200.0).holds


def test_the_wrong_algorithm_under_a_name_of_figure_2_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {**plans.SINGLE, "Chain": plans.SINGLE["FIFO"], "FIFO": plans.SINGLE["Chain"]}
    monkeypatch.setattr(comparison, "SINGLE", swapped)
    assert not amos.figure_2(1, seeds=1, seconds=60.0).holds


def test_greedy_in_place_of_the_component_based_policy_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = outliers._latency_of

    def wrong(policy: str, share: int, seed: int) -> float:
        return run("tuple-greedy" if policy.startswith("chart") else policy, share, seed)

    monkeypatch.setattr(outliers, "_latency_of", wrong)
    assert not chart.latency(1, seeds=1, shares=(0, 4, 20)).holds
