"""The yield of a row: its cost, results and freed bytes along the operators, for ranks and charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.scheduling.cut import Unit, Units
from headgate.scheduling.view import View


@dataclass(frozen=True, slots=True)
class Yield:
    """One row taken by a unit: its cost (s), the results it gives, the bytes it frees, and the rows it becomes."""

    cost: float
    results: float
    freed: float
    rows: float


def downstream(view: View) -> tuple[list[float], list[float]]:
    """Per operator: the expected cost C and results S of a row, down to all outputs (004 §3).

    Where a row goes to several consumers, both are sums over the branches.
    """
    topology, stats = view.topology, view.statistics
    cost = [0.0] * len(topology.operators)
    results = [0.0] * len(topology.operators)
    own, selectivity, consumers = stats.cost, stats.selectivity, topology.consumers
    for o in reversed(topology.order):
        below, made = 0.0, float(len(topology.results[o]))
        for k in consumers(o):
            below += cost[k]
            made += results[k]
        share = selectivity[o]
        cost[o] = own[o] + share * below
        results[o] = share * made
    return cost, results


def entry_rate(view: View, edge: int) -> float:
    """Rows per second that arrive on an edge, by the statistics."""
    topology, stats = view.topology, view.statistics
    found = topology.edges[edge]
    if found.producer is not None:
        return stats.rate[found.producer] * stats.selectivity[found.producer]
    return stats.rate[found.consumer] / len(topology.inputs[found.consumer])


def within(view: View, units: Units, unit: Unit) -> Yield:
    """The yield of one row in a unit, averaged over its entries by their rates.

    Entries of one fork are read together: they hold one row, whose bytes are freed once (001 §4).
    """
    topology, stats, queued = view.topology, view.statistics, units.cut.queued
    forks: dict[object, list[int]] = {}
    for e in unit.entries:
        edge = topology.edges[e]
        forks.setdefault(edge.stream if edge.producer is None else edge.producer, []).append(e)
    rates = {key: entry_rate(view, edges[0]) for key, edges in forks.items()}
    total = sum(rates.values())
    amount = dict.fromkeys(unit.operators, 0.0)
    freed = 0.0
    for key, edges in forks.items():
        share = rates[key] / total if total > 0 else 1 / len(forks)
        for e in edges:
            amount[topology.edges[e].consumer] += share
        freed += share * stats.bytes_in[topology.edges[edges[0]].consumer]
    cost = results = rows = 0.0
    for o in unit.operators:
        cost += amount[o] * stats.cost[o]
        made = amount[o] * stats.selectivity[o]
        results += made * len(topology.results[o])
        kept = False
        for e in topology.outputs[o]:
            if e in queued:
                kept = True
            else:
                amount[topology.edges[e].consumer] += made
        if kept:
            freed -= made * stats.bytes_out[o]
            rows += made
        elif topology.results[o]:
            rows += made
    return Yield(cost, results, freed, rows)


def rank_by(score: Callable[[Yield], float]) -> Callable[[View, Units], Sequence[float]]:
    """A rank of all units by the yield of a row in each."""

    def rank(view: View, units: Units) -> Sequence[float]:
        return [score(within(view, units, unit)) for unit in units.units]

    return rank


def memory_slope(done: Yield) -> float:
    """Bytes freed per second (001 §3: memory reduction rate)."""
    return done.freed / done.cost


def result_slope(done: Yield) -> float:
    """Results per second (001 §3: output generation rate)."""
    return done.results / done.cost
