"""Exact statistics of a modelled graph: row sizes, rates, costs and selectivities, propagated from the streams."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.scheduling.errors import ModelError
from headgate.scheduling.statistics import Statistics
from headgate.scheduling.topology import Topology
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.models import JoinModel, Model


def row_sizes(
    topology: Topology, operators: Mapping[str, Model], streams: float | Mapping[str, float]
) -> tuple[list[float], list[float]]:
    """Bytes per row on each edge, and per result of each operator."""
    made = [0.0] * len(topology.operators)
    sizes = [0.0] * len(topology.edges)

    def stream_size(name: str) -> float:
        size = streams.get(name, 100.0) if isinstance(streams, Mapping) else streams
        if size < 0:
            raise ModelError(f"stream '{name}' has rows of {size} bytes; give zero or more")
        return float(size)

    for operator in topology.order:
        for edge_id in topology.inputs[operator]:
            edge = topology.edges[edge_id]
            sizes[edge_id] = stream_size(edge.stream or "") if edge.producer is None else made[edge.producer]
        own = operators[topology.operators[operator]].bytes_out
        made[operator] = sizes[topology.inputs[operator][0]] if own is None else float(own)
    return sizes, made


def known_statistics(
    topology: Topology,
    operators: Mapping[str, Model],
    arrivals: Mapping[str, Arrivals],
    sizes: list[float],
    made: list[float],
    half_life: float,
) -> Statistics:
    """The statistics that the models have on average at the mean rates of the streams."""
    stats = Statistics(topology, half_life=half_life)
    results = [0.0] * len(topology.operators)
    for operator in topology.order:
        name = topology.operators[operator]
        model = operators[name]
        edges = [topology.edges[e] for e in topology.inputs[operator]]
        if isinstance(model, JoinModel) and len(edges) != 2:
            raise ModelError(f"join '{name}' has {len(edges)} inputs; a modelled join has two")
        rates = [arrivals[e.stream or ""].rate if e.producer is None else results[e.producer] for e in edges]
        expected = model.expected(rates)
        results[operator] = sum(rates) * expected.selectivity
        total = sum(rates)
        weights = [rate / total if total else 1 / len(rates) for rate in rates]
        size_in = sum(w * sizes[e.id] for w, e in zip(weights, edges, strict=True))
        stats.expect(
            operator,
            cost=expected.cost,
            selectivity=expected.selectivity,
            bytes_in=size_in,
            bytes_out=made[operator],
            rate=total,
        )
    return stats
