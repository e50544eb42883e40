"""Runs the scheduling code in virtual time, over models of operators instead of data."""

from headgate.simulation.arrivals import (
    Arrivals,
    Bursts,
    ChangingPoisson,
    Constant,
    Poisson,
    RecordedArrivals,
    backlog,
    bursty,
)
from headgate.simulation.costs import Cost, FixedCost, NormalCost, RecordedCosts
from headgate.simulation.kernel import Simulation, simulate
from headgate.simulation.models import AggregateModel, JoinModel, Model, OperatorModel
from headgate.simulation.result import LatencyDistribution, SimulationResult

__all__ = [
    "AggregateModel",
    "Arrivals",
    "Bursts",
    "ChangingPoisson",
    "Constant",
    "Cost",
    "FixedCost",
    "JoinModel",
    "LatencyDistribution",
    "Model",
    "NormalCost",
    "OperatorModel",
    "Poisson",
    "RecordedArrivals",
    "RecordedCosts",
    "Simulation",
    "SimulationResult",
    "backlog",
    "bursty",
    "simulate",
]
