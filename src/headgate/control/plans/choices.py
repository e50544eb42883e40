"""Which plan each query of an engine runs: chosen when it begins, changed by the optimizer where no state is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.control.operator_figures import OperatorFigures
from headgate.control.plans.alternates import WRITTEN, alternates, named, reason_not_switchable
from headgate.control.plans.ranking import added_cores
from headgate.control.plans.shared_aggregate import PREFIX
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.scheduling.decisions import Decision, DecisionLog

MIN_SAVING = 0.2
"""A query starts with an alternate plan only if that saves at least this share of the processor time that the plan as
written adds: estimates are too rough to detect smaller savings."""
BEFORE = "as before"
"""Name of a plan of an earlier run that is no present alternate, for example one shared with a query that is gone."""


@dataclass
class Chosen:
    """The plans of one query by name; the names of the one that it began with and of the one that runs now."""

    question: Query
    initial_plan: str
    plans: dict[str, Operator]
    running: str = ""

    @property
    def now(self) -> Operator:
        return self.plans[self.running or self.initial_plan]


class PlanChoices:
    """The plans of all queries of an engine. Any thread may call it.

    `decided` is called when a query starts with another plan than the one as written. In settings of the optimizer
    (`Setting.plans`) the empty name stands for the plan that a query started with.
    """

    def __init__(self, decided: Callable[[Decision], None], clock: Callable[[], float]) -> None:
        self._decided = decided
        self._clock = clock
        self._log = DecisionLog()
        self._known: dict[str, Chosen] = {}
        self._lock = threading.Lock()

    def resume(self, committed: Iterable[Query], declared: Mapping[str, Query]) -> None:
        """Continues with the plans of an earlier run, which may have state and queued rows."""
        before = {query.name: query for query in committed}
        with self._lock:
            self._known.clear()
            for name, ran in before.items():
                query = declared.get(name)
                if query is not None and ran.same_question(query):
                    plans = alternates(query, before.values())
                    initial_plan = named(plans, ran.plan) or BEFORE
                    self._known[name] = Chosen(query, initial_plan, {**plans, initial_plan: ran.plan})

    def planned(
        self, queries: Sequence[Query], wanted: Mapping[str, str], network: Mapping[str, Any], choosing: bool
    ) -> list[Query]:
        """The queries with the plans that they run from now on; `network`: the latest metrics of the network.

        If `choosing`, a new query gets the plan that adds the least processor time. A running query gets the plan that
        is `wanted`, unless that would lose state. A paused query keeps its plan, because its waiting rows cannot be
        processed before a change.
        """
        with self._lock:
            self._known = {q.name: self._known[q.name] for q in queries if self._continues(q)}
            ran = [replace(q, plan=self._known[q.name].now) for q in queries if q.name in self._known]
            found: list[Query] = []
            for query in queries:
                chosen = self._known.get(query.name)
                beside = [each for each in (*ran, *found) if each.name != query.name]
                if chosen is None:
                    chosen = self._begin(query, beside, network) if choosing else _as_declared(query, beside)
                    self._known[query.name] = chosen
                elif not query.pause:
                    self._change(chosen, wanted.get(query.name, ""), beside)
                chosen.question = query
                found.append(replace(query, plan=chosen.now))
            return found

    def offered(self, network: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """For each query, the plans that it can change to without losing state, besides the one that it started with;
        those that add the least processor time first."""
        with self._lock:
            found: dict[str, tuple[str, ...]] = {}
            for name, chosen in self._known.items():
                if len(chosen.plans) < 2 or chosen.question.pause:
                    continue
                free = [
                    n
                    for n, plan in chosen.plans.items()
                    if n != chosen.initial_plan and not reason_not_switchable(chosen.now, plan, self._beside(name))
                ]
                nodes = {n for query in self._beside(name) for n in query.plan.walk()}
                costs = _costs({n: chosen.plans[n] for n in free}, nodes, network)
                found[name] = tuple(sorted(free, key=lambda n: costs[n]))
            return found

    def under(self, query: Query, name: str) -> Query:
        """A query with the plan of this name."""
        with self._lock:
            chosen = self._known.get(query.name)
            if chosen is None:
                return query
            return replace(query, plan=chosen.plans.get(name or chosen.initial_plan, chosen.now))

    def report(self, query: str) -> dict[str, Any] | None:
        """The present plan of a query, and its other plans, each with the reason why it cannot change to it, if any."""
        with self._lock:
            chosen = self._known.get(query)
            if chosen is None or len(chosen.plans) < 2:
                return None
            running = chosen.running or chosen.initial_plan
            others = {
                name: reason_not_switchable(chosen.now, plan, self._beside(query))
                for name, plan in chosen.plans.items()
                if name != running
            }
            return {"running": running, "others": others}

    def _beside(self, name: str) -> Iterator[Query]:
        """The other queries with the plans that they run."""
        return (replace(each.question, plan=each.now) for other, each in self._known.items() if other != name)

    def _continues(self, query: Query) -> bool:
        chosen = self._known.get(query.name)
        return chosen is not None and _asked(chosen.question) == _asked(query)

    def _begin(self, query: Query, beside: Sequence[Query], network: Mapping[str, Any]) -> Chosen:
        """Chooses the plan that adds the least processor time to the running graph."""
        allowed = [each for each in beside if each.cls.priority >= query.cls.priority]
        # Sharing an aggregate of a lower class would raise all of its work to the class of this query.
        plans = alternates(query, allowed)
        if len(plans) == 1:
            return Chosen(query, WRITTEN, plans)
        costs = _costs(plans, {node for each in beside for node in each.plan.walk()}, network)
        best = min(costs, key=lambda name: costs[name])
        if costs[best] > (1 - MIN_SAVING) * costs[WRITTEN]:
            best = WRITTEN
        else:
            self._note(query.name, best, costs)
        return Chosen(query, best, plans)

    def _change(self, chosen: Chosen, name: str, beside: Sequence[Query]) -> None:
        if name == chosen.running or (name or chosen.initial_plan) not in chosen.plans:
            return
        if reason_not_switchable(chosen.now, chosen.plans[name or chosen.initial_plan], beside) is None:
            chosen.running = name

    def _note(self, query: str, name: str, costs: Mapping[str, float]) -> None:
        shared = f"; {name.removeprefix(PREFIX)} computes most of it already" if name.startswith(PREFIX) else ""
        share = costs[name] / costs[WRITTEN] if costs[WRITTEN] else 0.0
        reason = f"it adds {share:.0%} of the processor time of the plan as written{shared}"
        made = self._log.add(self._clock(), "plan", query, name, WRITTEN, reason, scores=dict(costs))
        self._decided(made)


def _asked(query: Query) -> tuple[Any, ...]:
    return (query.plan, query.schema, query.sinks, query.mode, query.attempt)


def _as_declared(query: Query, beside: Sequence[Query]) -> Chosen:
    plans = alternates(query, beside)
    initial_plan = named(plans, query.plan) or BEFORE
    return Chosen(query, initial_plan, {**plans, initial_plan: query.plan})


def _costs(
    plans: Mapping[str, Operator], running: Collection[Operator], network: Mapping[str, Any]
) -> dict[str, float]:
    """The processor time that each plan adds to the running operators."""
    figures = OperatorFigures(network, running)
    rates = _rates(running, figures)
    return {name: added_cores(plan, running, figures, rates) for name, plan in plans.items()}


def _rates(running: Iterable[Operator], figures: OperatorFigures) -> dict[str, float]:
    """Rows per second of each stream, as its readers measure them."""
    found: dict[str, float] = {}
    for node in running:
        for each in node.inputs:
            if isinstance(each, Source):
                rate = figures.measured(node).get("rate", 0.0) / len(node.inputs)
                found[each.stream] = max(found.get(each.stream, 0.0), rate)
    return found
