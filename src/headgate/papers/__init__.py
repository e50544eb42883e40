"""The experiments of the papers, one module per paper; this file is the registry behind `headgate reproduce`.

An experiment is a function `(seed) -> Outcome`. To add one, write it in the module of its paper and list it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from headgate.outcome import Outcome


@dataclass(frozen=True)
class Experiment:
    """The function of an experiment (`module:function`, imported on first use) and what it reproduces.

    An experiment that measures `wall_clock` time depends on the load of the machine: it runs alone.
    """

    function: str
    about: str
    wall_clock: bool = False


EXPERIMENTS: Mapping[str, Experiment] = {
    "amos-example": Experiment("amos:example", "002 Tables 1, 2: three filters, FIFO and MTIQ"),
    "amos-figure-2": Experiment("amos:figure_2", "002 Fig. 2: four algorithms on the two-stream plan"),
    "amos-delay": Experiment("amos:delay", "002 Fig. 5: AMoS with tuple delay as its objective"),
    "amos-queue": Experiment("amos:queue", "002 Fig. 6: AMoS with queue size as its objective"),
    "amos-70-30": Experiment("amos:delay_70_rate_30", "002 Fig. 7: 70% tuple delay, 30% output rate"),
    "amos-30-70": Experiment("amos:delay_30_rate_70", "002 Fig. 8: 30% tuple delay, 70% output rate"),
    "amos-equal": Experiment("amos:equal", "002 Fig. 9: delay, output and queues, equal weights"),
    "amos-learners": Experiment("amos:learners", "ours, after 002 §3.5: other learners for AMoS"),
    "chart-example": Experiment("chart:example", "001 §5: queues (10, 1) and (9) under greedy and MSS"),
    "chart-forks": Experiment("chart:forks", "001 §4, Figs. 5–9: where the charts cut forks"),
    "chart-latency": Experiment("chart:latency", "001 Fig. 12: latency by share of outliers"),
    "chart-memory": Experiment("chart:memory", "001 Fig. 13: total buffer size by share of outliers"),
    "mavstream-latency": Experiment("mavstream:latency", "003 Fig. 6.1: tuple latency by input rate"),
    "mavstream-memory": Experiment("mavstream:memory", "003 Fig. 6.2: peak memory by input rate"),
    "mavstream-throughput": Experiment("mavstream:throughput", "003 Figs. 6.3–6.6: variation of the output rate"),
    "mavstream-burst": Experiment("mavstream:burst", "003 Fig. 6.7: memory during and after bursts"),
    "mavstream-as-run": Experiment("mavstream:as_run", "003 §5.1.3: the same, operator by operator"),
    "cqc-a": Experiment("cqc:a", "004 Figs. 3, 4: 21 queries in 3 classes, workload A"),
    "cqc-b": Experiment("cqc:b", "004 Figs. 3, 5: two critical joins, workload B"),
    "cqc-c": Experiment("cqc:c", "004 Figs. 3, 6: other priorities, workload C"),
    "hmts-decoupling": Experiment("hmts:decoupling", "000 Fig. 6: joins with and without queues before them"),
    "hmts-decoupling-live": Experiment(
        "live_decoupling:decoupling_live", "000 Fig. 6 on real threads, with bounded queues", wall_clock=True
    ),
    "hmts-burst": Experiment("hmts:burst", "000 Figs. 9, 10: a burst, an expensive predicate"),
    "hmts-modes": Experiment("live_hmts:modes", "000 Fig. 7: five selections under DI, GTS and OTS", wall_clock=True),
    "hmts-scale": Experiment("live_hmts:scale", "000 Fig. 8: DI and OTS with 1 to 200 queries", wall_clock=True),
    "cqc-a-live": Experiment("live_cqc:a", "004 Fig. 3 in the real network, workload A"),
    "cqc-b-live": Experiment("live_cqc:b", "004 Figs. 4, 5 in the real network, workload B"),
    "cqc-c-live": Experiment("live_cqc:c", "004 Fig. 6 in the real network, workload C"),
    "mavstream-latency-live": Experiment("live_mavstream:latency", "003 Fig. 6.1 in the real network"),
    "mavstream-memory-live": Experiment("live_mavstream:memory", "003 Fig. 6.2 in the real network"),
    "mavstream-throughput-live": Experiment("live_mavstream:throughput", "003 Figs. 6.3–6.6 in the real network"),
    "mavstream-burst-live": Experiment("live_mavstream:burst", "003 Fig. 6.7 in the real network"),
    "sim-vs-live": Experiment("live_prediction:prediction", "ours: predicted and real latencies at three loads"),
    "hmts-placement": Experiment("hmts:placement", "000 Fig. 11: queue placement in random graphs"),
}


SHARING = ("amos", "mavstream", "live_mavstream")
"""Modules whose experiments share runs, which are kept in the process that made them."""


def together(names: Sequence[str]) -> list[list[str]]:
    """The names in groups that should run one after another in one process, because they share runs."""
    groups: dict[str, list[str]] = {}
    for name in names:
        module = EXPERIMENTS[name].function.split(":")[0]
        groups.setdefault(module if module in SHARING else name, []).append(name)
    return list(groups.values())


class UnknownExperiment(ValueError):
    """No experiment has this name; the message suggests the closest one."""


def known(name: str) -> str:
    """Returns the name if there is such an experiment, raises UnknownExperiment with a hint otherwise."""
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else "`headgate reproduce --list` lists them"
        raise UnknownExperiment(f"no experiment is called '{name}'; {hint}")
    return name


def run(name: str, seed: int = 1) -> Outcome:
    """Runs one experiment."""
    module, function = EXPERIMENTS[known(name)].function.split(":")
    outcome: Outcome = getattr(import_module(f"{__name__}.{module}"), function)(seed)
    return outcome
