"""The same scheduling code in virtual time, over modelled operators."""

from headgate.simulation.arrivals import (
    Arrivals,
    Bursts,
    ChangingPoisson,
    Constant,
    Poisson,
    RecordedArrivals,
    waiting,
)
from headgate.simulation.costs import Cost, Fixed, Normal, Recorded
from headgate.simulation.kernel import Simulation, simulate
from headgate.simulation.operators import Aggregate, Join, Model, Operator
from headgate.simulation.result import Latency, Result

__all__ = [
    "Aggregate",
    "Arrivals",
    "Bursts",
    "ChangingPoisson",
    "Constant",
    "Cost",
    "Fixed",
    "Join",
    "Latency",
    "Model",
    "Normal",
    "Operator",
    "Poisson",
    "Recorded",
    "RecordedArrivals",
    "Result",
    "Simulation",
    "simulate",
    "waiting",
]
