"""The generated workloads, by name; each is a module that lists its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.feeder.feed import Feed, RowMaker
from headgate.feeder.feeder import FeedError
from headgate.feeder.workloads import auctions, packets, readings, sensors
from headgate.simulation.arrivals import ArrivalBlocks, Constant, Poisson, bursty

ARRIVALS: Mapping[str, Callable[[float], ArrivalBlocks]] = {"poisson": Poisson, "bursty": bursty, "periodic": Constant}
"""The arrival processes, by name; each is made from a mean rate (rows/s)."""


@dataclass(frozen=True)
class FeedWorkload:
    """Streams that belong together. `shares`: the share of all rows that goes to each stream."""

    about: str
    shares: Mapping[str, float]
    makers: Callable[[int], Mapping[str, RowMaker]]
    keys: Mapping[str, str]


WORKLOADS: Mapping[str, FeedWorkload] = {
    "sensors": FeedWorkload(
        "a forest: sensors, weather, and fires that develop", sensors.SHARES, sensors.makers, sensors.KEYS
    ),
    "auctions": FeedWorkload(
        "auctions in the manner of Nexmark: persons, auctions, bids", auctions.SHARES, auctions.makers, auctions.KEYS
    ),
    "packets": FeedWorkload(
        "a network: packets, logins, and port scans that develop", packets.SHARES, packets.makers, packets.KEYS
    ),
    "readings": FeedWorkload(
        "independent uniform readings (004 Table 1)", readings.SHARES, readings.makers, readings.KEYS
    ),
}


def workload(
    name: str, rate: float = 1000.0, arrivals: str | Callable[[float], ArrivalBlocks] = "poisson", seed: int = 0
) -> list[Feed]:
    """The feeds of a workload. `rate` is that of all streams together; `arrivals` makes the process of each stream."""
    if name not in WORKLOADS:
        raise FeedError(f"there is no workload {name}; there are: {', '.join(WORKLOADS)}")
    if isinstance(arrivals, str):
        if arrivals not in ARRIVALS:
            raise FeedError(f"there are no arrivals {arrivals}; there are: {', '.join(ARRIVALS)}")
        arrivals = ARRIVALS[arrivals]
    chosen = WORKLOADS[name]
    makers = chosen.makers(seed)
    return [Feed(stream, makers[stream], arrivals(rate * share)) for stream, share in chosen.shares.items()]
