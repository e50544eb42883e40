"""Highest rate as in AQSIOS: streams are read only when no row read before is waiting (004 §3)."""

from __future__ import annotations

from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, Poisson, RecordedArrivals, Simulation, SimulationResult, simulate
from headgate.simulation.execution import Row

TOPOLOGY = Topology.of(
    {"fast source": ["s"], "fast": ["fast source"], "slow source": ["t"], "slow": ["slow source"]},
    queries={"fast": "fast", "slow": "slow"},
)
MODELS = {
    "fast source": OperatorModel(0.1),
    "fast": OperatorModel(0.1),
    "slow source": OperatorModel(0.1),
    "slow": OperatorModel(1.0),
}


def order(policy: str, arrivals: dict[str, RecordedArrivals]) -> list[str]:
    """The operators in the order in which they took rows."""
    taken: list[str] = []

    def watch(event: str, edge: int, row: Row, moment: float) -> None:
        if event == "out":
            taken.append(TOPOLOGY.operators[TOPOLOGY.edges[edge].consumer])

    Simulation(TOPOLOGY, MODELS, arrivals, policy, observer=watch).run()
    return taken


def test_a_set_of_sources_is_read_to_its_end_and_only_when_nothing_waits() -> None:
    arrivals = {"s": RecordedArrivals((0.0, 0.15)), "t": RecordedArrivals((0.0,))}
    first = ["fast source", "slow source", "fast", "slow"]
    assert order("hr:sources=last", arrivals) == [*first, "fast source", "fast"]


def test_ranked_sources_overtake_rows_read_before() -> None:
    arrivals = {"s": RecordedArrivals((0.0, 0.25)), "t": RecordedArrivals((0.0,))}
    assert order("hr", arrivals) == ["fast source", "fast", "slow source", "fast source", "fast", "slow"]


def test_nothing_is_lost_and_no_processor_idles() -> None:
    def run(policy: str, processors: int) -> SimulationResult:
        flow = {"s": Poisson(4, rows=300), "t": Poisson(0.7, rows=60)}
        return simulate(TOPOLOGY, MODELS, flow, policy, processors=processors, seed=3)

    for policy in ("hr:sources=last", "cqc:inner=hr(sources=last)"):
        for processors in (1, 2):
            result = run(policy, processors)
            assert not result.unprocessed
            assert (result.latency("fast").count, result.latency("slow").count) == (300, 60)
        # One processor, no switch cost: the work ends when any policy that never idles ends it.
        assert abs(run(policy, 1).end - run("fifo", 1).end) < 1e-6
