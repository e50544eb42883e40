"""002 Fig. 4(b) and §4.1: the two-stream query plan, its streams, and one run of an algorithm over it.

The selectivities and times in Fig. 4 are illegible (except Op4: 0.25 and 0.25; read as 0.25 and half of Op1's time).
The paper does not give the rates, the start-up cost of an operator, the time slice or the length of a run. They were
fixed on seeds 101 to 106 by Fig. 2 alone, before AMoS ran with them: docs/papers.md lists every setting tried. The
Chain paper (002's reference 3), from which the plans are taken, was not available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headgate.scheduling import Topology
from headgate.scheduling import policy as policy_of
from headgate.scheduling.amos import Amos
from headgate.simulation import ChangingPoisson, JoinModel, Model, OperatorModel, simulate

Floats = NDArray[np.float64]

SECONDS = 400.0
SEEDS = 20
CHANGE = 5.0
BIN = 5.0
SWITCH = 0.0002
SLICE = "10ms"
INTERVAL = "10s"
SINGLE = {"RR": f"rr:quantum={SLICE}", "FIFO": "fifo:rows=1", "MTIQ": "mtiq", "Chain": "chain:queues=every"}
# Every candidate has a queue before every operator, as in the paper's system: a switch drains nothing.
CANDIDATES = f"rr(quantum={SLICE})+fifo(rows=1)+mtiq+chain(queues=every)"
WHEEL, OURS = "AMoS", "AMoS, our learner"
LEARNERS = {WHEEL: "wheel", OURS: "controlled"}

PLAN = "plan 2: a filter on each of two streams, a join within 200 ms, a filter"
INPUTS: Mapping[str, tuple[str, ...]] = {
    "op1": ("stream 1",),
    "op4": ("stream 2",),
    "op2": ("op1", "op4"),
    "op3": ("op2",),
}
MODELS: Mapping[str, Model] = {
    "op1": OperatorModel(0.005, 0.5),
    "op4": OperatorModel(0.0025, 0.25),
    "op2": JoinModel(0.010, 0.05, window=0.2),
    "op3": OperatorModel(0.020, 0.5),
}
# The range (tuples/s) from which the mean rate of each stream is drawn every five seconds.
RATES = (27.0, 75.0)


@dataclass(frozen=True)
class AmosRun:
    """One run: mean delay (s), mean number of tuples in queues, results/s; and the same over time.

    `late_delay` is the mean delay of the results in the last fifth of the arrivals. Over time, in bins of five seconds:
    total delay of the results, their number, and tuples in queues. `shares` is the share of time in which AMoS ran each
    candidate (by policy name).
    """

    delay: float
    late_delay: float
    queue: float
    output: float
    delays: Floats
    results: Floats
    queues: Floats
    shares: Mapping[str, float]


def numbers(seed: int, seeds: int = SEEDS) -> list[int]:
    """The seeds of the runs of an experiment; different experiment seeds share none, and none is a tuning seed."""
    return [1000 * seed + number for number in range(1, seeds + 1)]


def amos(learner: str, weights: Mapping[str, float], seed: int) -> str:
    """The AMoS policy over the four algorithms, as text."""
    spec = "+".join(f"{name}*{weight:g}" for name, weight in weights.items())
    return f"amos:policies={CANDIDATES},weights={spec},learner={learner},interval={INTERVAL},seed={seed}"


@cache
def run(policy: str, seed: int, seconds: float = SECONDS) -> AmosRun:
    """Runs with arrivals for `seconds`, then until the queues are empty. The same seed gives the same tuples."""
    topology = Topology.of(INPUTS)
    arrivals = {name: ChangingPoisson(RATES, every=CHANGE, until=seconds, draw=True) for name in topology.streams}
    scheduler = policy_of(policy)
    result = simulate(topology, MODELS, arrivals, scheduler, switch=SWITCH, seed=seed, tuples="whole")
    output = result.outputs[0]
    times, latencies = np.frombuffer(output.time), np.frombuffer(output.latency)
    rows = np.frombuffer(output.rows)
    edges = np.arange(0.0, seconds + BIN / 2, BIN)
    levels = result.queue_series()[1]
    levels = np.pad(levels, (0, max(0, int(seconds) - len(levels))))[: int(seconds)]
    late = (times > 0.8 * seconds) & (times <= seconds)
    return AmosRun(
        delay=result.latency().mean,
        late_delay=float((latencies * rows)[late].sum() / max(rows[late].sum(), 1.0)),
        queue=result.row_seconds / seconds,
        output=float(rows[times <= seconds].sum()) / seconds,
        delays=np.histogram(times, edges, weights=latencies * rows)[0],
        results=np.histogram(times, edges, weights=rows)[0],
        queues=levels.reshape(-1, int(BIN)).mean(axis=1),
        shares=_time_shares(scheduler.history, result.end) if isinstance(scheduler, Amos) else {},
    )


def _time_shares(history: Sequence[tuple[float, str]], end: float) -> dict[str, float]:
    """The share of time of each candidate, from the moments at which AMoS switched to it."""
    shares: dict[str, float] = {}
    for (start, name), (stop, _) in zip(history, [*history[1:], (end, "")], strict=True):
        shares[name] = shares.get(name, 0.0) + (stop - start) / end
    return shares


def setup(seed: int, seeds: int, seconds: float) -> dict[str, object]:
    """All parameters, for the JSON."""
    return {
        "seed": seed,
        "seeds": numbers(seed, seeds),
        "plan": PLAN,
        "inputs": {name: list(inputs) for name, inputs in INPUTS.items()},
        "operators": {name: str(model) for name, model in MODELS.items()},
        "arrivals": f"Poisson; the mean is drawn every {CHANGE:g} s, uniformly from {RATES[0]:g} to {RATES[1]:g} /s",
        "seconds of arrivals": seconds,
        "start-up cost of an operator (s)": SWITCH,
        "time slice of RR": SLICE,
        "single algorithms": dict(SINGLE),
        "candidates": CANDIDATES,
        "least time a candidate runs": INTERVAL,
        "decay": 0.3,
        "learners": dict(LEARNERS),
    }
