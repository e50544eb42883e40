"""HMTS: partitions of units, each with its own policy and thread (000 §4, §5)."""

from headgate.scheduling.hmts.placement import Load, capacities, capacity, loads, place_queues
from headgate.scheduling.hmts.policy import DirectInteroperability, GraphThreaded, Hmts, OperatorThreaded
from headgate.scheduling.hmts.threads import ThreadSelector

__all__ = [
    "DirectInteroperability",
    "GraphThreaded",
    "Hmts",
    "Load",
    "OperatorThreaded",
    "ThreadSelector",
    "capacities",
    "capacity",
    "loads",
    "place_queues",
]
