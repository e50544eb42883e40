"""The policies, one a file; importing this package registers them all."""

from headgate.scheduling.policies import (
    aurora,
    chain,
    chart,
    fifo,
    greedy,
    highest_rate,
    most_tuples,
    mss,
    path_capacity,
    round_robin,
    segment,
    threshold,
)

__all__ = [
    "aurora",
    "chain",
    "chart",
    "fifo",
    "greedy",
    "highest_rate",
    "most_tuples",
    "mss",
    "path_capacity",
    "round_robin",
    "segment",
    "threshold",
]
