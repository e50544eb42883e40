"""Turns the graph of declared queries into a simulation: topology, operator models, row sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headgate.graph.operators import Aggregate, Merge, Operator, Source, Window
from headgate.graph.shared import SharedGraph
from headgate.graph.types import Schema
from headgate.scheduling import ModelError, Topology
from headgate.scheduling.errors import closest
from headgate.scheduling.graphs import topology_of
from headgate.scheduling.statistics import DEFAULTS, Expectation
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.models import AggregateModel, Model, OperatorModel

# Assumed bytes of a value without a fixed width (a string, a list).
VARIABLE_WIDTH = 24.0
MICROSECOND = 1e-6
FIGURES = ("cost", "selectivity")


@dataclass(frozen=True)
class Scenario:
    """A graph ready for `simulate`: topology, a model of each operator, bytes per row of each stream."""

    topology: Topology
    models: Mapping[str, Model]
    bytes: Mapping[str, float]


def scenario(graph: SharedGraph, arrivals: Mapping[str, Arrivals], costs: Mapping[str, Expectation]) -> Scenario:
    """The graph under given arrivals. `costs` holds expectations by operator (`select 3`) or by kind (`select`);
    the defaults of the kind apply where it has none."""
    nodes = graph.operators
    sources = {n: node for n, node in nodes.items() if isinstance(node, Source)}
    topology, numbers = topology_of(graph)
    _check_names(topology, arrivals, costs)
    rates = {n: arrivals[source.stream].rate for n, source in sources.items()}
    models: dict[str, Model] = {}
    for n, name in zip(numbers, topology.operators, strict=True):
        node = nodes[n]
        expected = costs.get(name) or costs.get(node.kind) or default(node)
        # Node numbers increase downstream, so the rates of the inputs are known.
        rate = rates[n] if n in sources else sum(rates[i] for i in graph.inputs(n))
        models[name] = model(node, expected, rate)
        if n not in sources:
            rates[n] = rate * expected.selectivity
    return Scenario(topology, models, {source.stream: row_bytes(source.schema) for source in sources.values()})


def default(node: Operator) -> Expectation:
    """The assumed figures of an operator of which nothing was measured."""
    known = DEFAULTS.get(node.kind, DEFAULTS["project"])
    return replace(known, cost=DEFAULTS["udf"].cost) if node.python_functions else known


def model(node: Operator, expected: Expectation, rate: float) -> Model:
    """A model with the expected mean cost and selectivity at a given input rate.

    A window aggregate emits its results together at the end of the window.
    """
    size = row_bytes(node.schema)
    whole = node.aggregate if isinstance(node, Merge) else node
    window: Window | None = whole.window if isinstance(whole, Aggregate) else None
    if window is not None and window.kind != "session":
        step = float(window.slide or window.length)
        if window.kind == "rows":
            return AggregateModel(expected.cost, rows=step, groups=expected.selectivity * step, bytes_out=size)
        seconds = step * MICROSECOND
        groups = expected.selectivity * rate * seconds
        return AggregateModel(expected.cost, window=seconds, groups=groups, bytes_out=size)
    return OperatorModel(expected.cost, expected.selectivity, size)


def row_bytes(schema: Schema) -> float:
    """Estimated bytes per row."""
    return sum(_width(field.type) for field in schema.fields)


def _width(kind: pa.DataType) -> float:
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(i).type) for i in range(kind.num_fields))
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return VARIABLE_WIDTH


def read_costs(parsed: Any, where: str) -> dict[str, Expectation]:
    """Expectations from JSON: the output of `Engine.metrics()`, or `{"select 3": {"cost": …, "selectivity": …}}`.

    A key is an operator or a kind; a missing figure is the default of the kind.
    """
    given = parsed.get("operators", parsed) if isinstance(parsed, dict) else parsed
    if isinstance(given, list):
        if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in given):
            raise ModelError(f"{where}: every entry of 'operators' must be an object with a 'name'")
        given = {entry["name"]: {key: entry[key] for key in FIGURES if key in entry} for entry in given}
    if not isinstance(given, dict):
        raise ModelError(f"{where}: not an object of figures by operator or kind; write {{'select': {{'cost': 1e-7}}}}")
    return {name: _expectation(name, figures, where) for name, figures in given.items()}


def _expectation(name: str, figures: Any, where: str) -> Expectation:
    if not isinstance(figures, dict):
        raise ModelError(
            f"{where}: '{name}' is not an object; write {{'cost': seconds per row, 'selectivity': results per row}}"
        )
    for key, value in figures.items():
        if key not in FIGURES:
            raise ModelError(f"{where}: '{name}' has unknown figure '{key}'; {closest(key, FIGURES)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ModelError(f"{where}: {key} of '{name}' is {value!r}; give a number")
    known = DEFAULTS.get(name.split()[0] if name else "", DEFAULTS["project"])
    made = replace(known, **{key: float(value) for key, value in figures.items()})
    if not made.cost > 0:
        raise ModelError(f"{where}: '{name}' has cost {made.cost:g}; give seconds per row above zero")
    if made.selectivity < 0:
        raise ModelError(f"{where}: '{name}' has selectivity {made.selectivity:g}; give zero or more")
    return made


def _check_names(topology: Topology, arrivals: Mapping[str, Arrivals], costs: Mapping[str, Expectation]) -> None:
    for stream in arrivals:
        if stream not in topology.streams:
            raise ModelError(f"no query reads a stream '{stream}'; {closest(stream, topology.streams)}")
    for stream in topology.streams:
        if stream not in arrivals:
            raise ModelError(f"stream '{stream}' has no rate; add {stream}=<rows per second>")
    known = {*topology.operators, *topology.kinds, *DEFAULTS}
    for name in costs:
        if name not in known:
            raise ModelError(f"costs are given for unknown operator or kind '{name}'; {closest(name, known)}")
