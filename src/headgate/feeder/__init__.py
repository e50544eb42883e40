"""Sends generated or recorded rows at the times of an arrival process: to folders, to Kafka, or into an engine."""

from headgate.feeder.engine_target import EngineTarget
from headgate.feeder.feed import Feed, RowMaker
from headgate.feeder.feeder import Feeder, FeedError, Progress, Target
from headgate.feeder.folder import FolderTarget
from headgate.feeder.kafka import KafkaTarget
from headgate.feeder.process import FeederProcess
from headgate.feeder.replay import replay
from headgate.feeder.workloads import ARRIVALS, WORKLOADS, workload
from headgate.simulation.arrivals import Bursts, ChangingPoisson, Constant, Poisson, RecordedArrivals, bursty

__all__ = [
    "ARRIVALS",
    "WORKLOADS",
    "Bursts",
    "ChangingPoisson",
    "Constant",
    "EngineTarget",
    "Feed",
    "FeedError",
    "Feeder",
    "FeederProcess",
    "FolderTarget",
    "KafkaTarget",
    "Poisson",
    "Progress",
    "RecordedArrivals",
    "RowMaker",
    "Target",
    "bursty",
    "replay",
    "workload",
]
