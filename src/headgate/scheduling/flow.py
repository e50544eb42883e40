"""What becomes of a row: costs, results and bytes along the operators, as ranks and charts need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.scheduling.cut import Unit, Units
from headgate.scheduling.view import View


@dataclass(frozen=True, slots=True)
class Yield:
    """What one row taken by a unit costs (s), how many results it gives, and how many bytes it frees."""

    cost: float
    results: float
    freed: float
    rows: float


def downstream(view: View) -> tuple[list[float], list[float]]:
    """Per operator: the expected cost C and results S of a row, down to all outputs (004 §3).

    Where a row is passed to several consumers both add up over the branches.
    """
    topology, stats = view.topology, view.statistics
    cost = [0.0] * len(topology.operators)
    results = [0.0] * len(topology.operators)
    own, selectivity, consumers = stats.cost, stats.selectivity, topology.consumers
    for o in reversed(topology.order):
        dear, made = 0.0, float(len(topology.results[o]))
        for k in consumers(o):
            dear += cost[k]
            made += results[k]
        share = selectivity[o]
        cost[o] = own[o] + share * dear
        results[o] = share * made
    return cost, results


def entry_rate(view: View, edge: int) -> float:
    """Rows per second that come in on an edge, as far as the statistics know."""
    topology, stats = view.topology, view.statistics
    found = topology.edges[edge]
    if found.producer is not None:
        return stats.rate[found.producer] * stats.selectivity[found.producer]
    return stats.rate[found.consumer] / len(topology.inputs[found.consumer])


def within(view: View, units: Units, unit: Unit) -> Yield:
    """What a unit does to one row, on average over its entries by their rates.

    Entries of one fork are read together: they are one row, and its bytes are freed once (001 §4).
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
    """A rank of all units from what each does to a row."""

    def rank(view: View, units: Units) -> Sequence[float]:
        return [score(within(view, units, unit)) for unit in units.units]

    return rank


def memory_slope(done: Yield) -> float:
    """Bytes freed per second (001 §3: memory reduction rate)."""
    return done.freed / done.cost


def result_slope(done: Yield) -> float:
    """Results per second (001 §3: output generation rate)."""
    return done.results / done.cost
