"""The policies, one a file; importing this package registers them all."""

from headgate.scheduling.policies import (
    fifo,
    greedy,
    highest_rate,
    most_tuples,
    path_capacity,
    round_robin,
)

__all__ = ["fifo", "greedy", "highest_rate", "most_tuples", "path_capacity", "round_robin"]
