"""How many scheduling decisions a second the simulator makes: `python -m headgate.simulation.speed [POLICY…]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import process_time

from headgate.scheduling.topology import Topology
from headgate.simulation.arrivals import Poisson
from headgate.simulation.kernel import simulate
from headgate.simulation.operators import Operator

POLICIES = ("rr:rows=1", "fifo:rows=1", "mtiq:rows=1", "hr:rows=1", "greedy:rows=1", "cqc:inner=hr(rows=1)")


def decisions_per_second(policy: str, *, operators: int = 50, rows: int = 2000, repeats: int = 3) -> float:
    """The best of some runs, in decisions per second of processor time: one row of one operator a decision,
    the least work that a decision can be spread over."""
    topology = Topology.of({f"o{n}": ["s" if n % 5 == 0 else f"o{n - 1}"] for n in range(operators)})
    models = {name: Operator(0.001, 0.9) for name in topology.operators}
    best = 0.0
    for _ in range(repeats):
        begun = process_time()
        result = simulate(topology, models, {"s": Poisson(20, rows=rows)}, policy)
        best = max(best, result.decisions / (process_time() - begun))
    return best


def main(policies: Sequence[str]) -> None:
    """Print a line for each policy."""
    for policy in policies or POLICIES:
        print(f"{policy:<24} {decisions_per_second(policy):>10,.0f} decisions/s")


if __name__ == "__main__":
    main(sys.argv[1:])
