"""Which unit runs next: statistics, charts, cuts, policies, classes, selection. Decides, never executes.

A policy is a cut and a rank. It sees a `View` (topology, statistics, queues) and cannot tell the worker from
the simulator. An experiment against the simulator is a topology, a model for each operator, an arrival
process for each stream, and a policy:

>>> from headgate.scheduling import Topology
>>> from headgate.simulation import OperatorModel, Poisson, simulate
>>> topology = Topology.of(
...     {"filter": ["sensors"], "alert": ["filter"], "report": ["filter"]},   # 'filter' forks
...     queries={"fire": ("alert", "critical"), "daily": ("report", "normal")},
...     classes={"critical": 6, "normal": 1},
... )
>>> models = {
...     "filter": OperatorModel(cost=0.001, selectivity=0.5),
...     "alert": OperatorModel(cost=0.002, selectivity=0.1),
...     "report": OperatorModel(cost=0.004, selectivity=1.0, bytes_out=20),
... }
>>> result = simulate(topology, models, {"sensors": Poisson(200, rows=2000)}, "rr:rows=1", seed=1)
>>> result.latency(cls="critical").count, result.processed["filter"]
(100.0, 2000.0)

`result` has latencies per query and class (mean, percentiles), throughput per interval, queue rows and bytes
(mean, peak, series), idle time and decisions. The same seed gives the same rows under every policy. Options of
`Simulation`: whole, random or fractional tuples, processors, switch cost, measured statistics.
"""

from headgate.scheduling import amos as _amos
from headgate.scheduling import cqc as _cqc
from headgate.scheduling import hmts as _hmts
from headgate.scheduling import policies as _policies
from headgate.scheduling.cut import Cut, Routes, Unit, Units
from headgate.scheduling.errors import ModelError, PolicyError, SchedulingError, TopologyError
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.registry import parameters, policies, policy
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.statistics import Statistics
from headgate.scheduling.topology import Edge, Topology, TopologyClass, TopologyQuery
from headgate.scheduling.view import Foreseen, Oracle, Performance, Queues, View

__all__ = [
    "Cut",
    "Edge",
    "Foreseen",
    "Grant",
    "ModelError",
    "Oracle",
    "Performance",
    "Policy",
    "PolicyError",
    "Queues",
    "Routes",
    "Scheduler",
    "SchedulingError",
    "Selector",
    "Statistics",
    "Topology",
    "TopologyClass",
    "TopologyError",
    "TopologyQuery",
    "Unit",
    "Units",
    "View",
    "parameters",
    "policies",
    "policy",
]
del _amos, _cqc, _hmts, _policies
