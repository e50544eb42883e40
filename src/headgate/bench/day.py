"""A day of changing load: `auto` with its optimizer, compared with fixed policies; in virtual time, or live on Spark.

The load doubles, a stream bursts, a function gets ten times slower, the objectives change, a query is added and dropped
(`day_script.py`). In virtual time the network is simulated (`control/virtual_engine.py`) and the day takes seconds; the
same optimizer runs beside an engine (`day_live.py`).
"""

from __future__ import annotations

from headgate.bench.day_script import (
    CLASSES,
    COMES,
    DAY,
    DEMANDS,
    GOES,
    OBJECTIVES,
    OBJECTIVES_CHANGE,
    SLOW_FROM,
    SLOW_UNTIL,
    SLOWER,
    VISITOR,
    DayRun,
    outcome,
    rate,
)
from headgate.control.optimizer import Optimizer
from headgate.control.virtual_engine import VariableOperator, VirtualEngine
from headgate.outcome import Outcome
from headgate.scheduling import Topology
from headgate.scheduling.decisions import Decision

FIXED = ("fifo", "rr", "chain", "mtiq", "hr", "cqc", "cqc:inner=chain")
SEEDS = (1, 2, 3)

TOPOLOGY = Topology.of(
    {
        "read": ["events"],
        "alarm": ["read"],
        "score": ["clicks"],
        "rank": ["score"],
        "scan": ["logs"],
        "fold": ["scan"],
        "visit": ["visits"],
    },
    queries={
        "alert": ("alarm", "critical"),
        "dashboard": ("rank", "normal"),
        "history": ("fold", "report"),
        VISITOR: ("visit", "normal"),
    },
    classes={name: float(priority) for name, priority in CLASSES.items()},
)


def run(live: bool = False, minutes: float = 10.0) -> Outcome:
    """The day in virtual time, or live, compressed to some minutes for each policy."""
    if live:
        from headgate.bench import day_live

        return day_live.run(minutes)
    days = {policy: [run_day(policy, seed) for seed in SEEDS] for policy in ("auto", *FIXED)}
    return outcome("day", "simulated, no peer: fixed policies under the same load", days, {"seeds": SEEDS})


def operators() -> dict[str, VariableOperator]:
    """The operators at the beginning of the day."""
    return {
        "read": VariableOperator(0.001, 0.8),
        "alarm": VariableOperator(0.0015, 0.2),
        "score": VariableOperator(0.0008, 1.0),
        "rank": VariableOperator(0.001, 0.5),
        "scan": VariableOperator(0.012, 0.5),
        "fold": VariableOperator(0.012, 0.1),
        "visit": VariableOperator(0.003, 0.3),
    }


def run_day(policy: str, seed: int) -> DayRun:
    """The day under `auto` with the optimizer, or under a fixed policy."""
    auto = policy == "auto"
    engine = VirtualEngine(
        TOPOLOGY,
        operators(),
        {stream: lambda now, name=stream: rate(name, now) for stream in TOPOLOGY.streams},  # type: ignore[misc]
        {name: demand for name, demand in DEMANDS.items() if name != VISITOR},
        policy="" if auto else policy,
        cores=2,
        random_arrivals=True,
        seed=seed,
    )
    run = DayRun()
    decisions: dict[int, Decision] = {}
    optimizer = Optimizer(engine.setting, lambda made: decisions.__setitem__(made.number, made))
    engine.pursue(OBJECTIVES[0])
    for second in range(DAY):
        if second == SLOW_FROM:
            engine.slow_down("score", SLOWER)
        if second == SLOW_UNTIL:
            engine.slow_down("score", 1 / SLOWER)
        if second == COMES:
            engine.demands[VISITOR] = DEMANDS[VISITOR]
        if second == GOES:
            del engine.demands[VISITOR]
        if second == OBJECTIVES_CHANGE:
            engine.pursue(OBJECTIVES[1])
        engine.advance()
        seen = engine.observe()
        for name in engine.demands:
            demand = seen.demands[name]
            run.record(second, name, engine.latency(name), None if demand.latency is None else not demand.missed)
        if auto:
            engine.apply(optimizer.tick(seen))
    for made in decisions.values():
        run.record_decision(made.at, made)
    return run
