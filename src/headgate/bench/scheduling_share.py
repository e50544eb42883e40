"""The scheduler's share of the processor time at 1,000 operators."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.bench.chains import STREAM as CHAIN_STREAM
from headgate.bench.chains import chains, values
from headgate.graph.shared import SharedGraph
from headgate.outcome import Outcome
from headgate.papers import cqc
from headgate.papers.cqc_sql import AGGREGATE, GROUPS, JOIN, SELECTION, BatchFeed, catalog
from headgate.runtime import Network

ROUNDS = 3
WARM_UP = 2
OPERATORS = 1000
ROWS = 50_000

Push = Callable[[Network], None]


def share(policies: Sequence[str]) -> Outcome:
    """The share for the mix of 004 (selections, window aggregates, window joins), to which the claim refers, and in the
    hardest case: only selections of one comparison, each a separate unit."""
    mixed, streams = _mixed()
    feed = BatchFeed(7)

    def push_all(network: Network) -> None:
        for stream in streams:
            network.push(stream, feed.batch(stream))

    plans: Mapping[str, tuple[SharedGraph, Push]] = {
        "mix": (mixed, push_all),
        "selections": (chains(), lambda network: network.push(CHAIN_STREAM, values(ROWS))),
    }
    shares = {
        (plan, policy): min(_scheduled(graph, policy, push) for _ in range(ROUNDS))
        for plan, (graph, push) in plans.items()
        for policy in policies
    }
    return Outcome(
        name="scheduling-share",
        source="goal: the scheduler costs less than 2% at 1,000 operators",
        claim="at 1,000 operators of the mix of 004 Table 2 the scheduler takes less than 2% of the time",
        paper={"largest_share": 0.02},
        measured={
            "largest_share": max(share for (plan, _), share in shares.items() if plan == "mix"),
            **{f"{policy}_{plan}": share for (plan, policy), share in shares.items()},
        },
        rule=lambda goal, measured: measured["largest_share"] < goal["largest_share"],
        setup={
            "operators": {plan: len(graph.operators) for plan, (graph, _) in plans.items()},
            "mix": "per 21 queries 6 selections, 9 tumbling aggregates, 6 joins; 4,000 rows per batch, no sharing",
            "selections": f"chains of five selections of one comparison each; {ROWS:,} rows per batch",
            "rounds": ROUNDS,
            "warm-up": f"{WARM_UP} batches of each stream",
        },
    )


def _mixed() -> tuple[SharedGraph, list[str]]:
    """Copies of the 21 queries of 004 with different constants, until there are enough operators."""
    declared, groups = catalog()
    kinds = {"s": cqc.A.selections, "a": cqc.A.aggregates, "j": cqc.A.joins}
    graph = SharedGraph()
    copy = 0
    while len(graph.operators) < OPERATORS:
        for kind, classes in kinds.items():
            for number, cls in enumerate(classes):
                name = f"{kind}{number}"
                text = {
                    "s": SELECTION.format(name=name, share=0.3 + copy / 1000),
                    "a": AGGREGATE.format(name=name, groups=GROUPS + copy),
                    "j": JOIN.format(name=name).replace("100 MILLI", f"{100 + copy} MILLI"),
                }[kind]
                graph.add(declared.query(f"{name}_{copy}", text, cls=cls))
        copy += 1
    return graph, [stream for group in groups for stream in group]


def _scheduled(graph: SharedGraph, policy: str, push: Push) -> float:
    """The scheduler's share of a run, from timing each of its calls, in processor time of this thread."""
    clock = time.thread_time
    network = Network(graph, policy, clock=clock)
    # In a warm state: the costs of the operators have been measured.
    for _ in range(WARM_UP):
        push(network)
        network.run()
        for name in network.queries:
            network.take(name)
    spent, calls = [0.0], [0]
    scheduler = network._state.loop.scheduler

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = clock()
            returned = function(*args)
            spent[0] += clock() - began
            calls[0] += 1
            return returned

        return call

    # The overhead of timing must not count as scheduling.
    nothing = timed(lambda *_: None)
    for number in range(2000):
        nothing(number)
    overhead = spent[0] / calls[0]
    for method in ("next", "arrived", "finished", "refresh"):
        setattr(scheduler, method, timed(getattr(scheduler, method)))
    push(network)
    spent[0], calls[0] = 0.0, 0
    report = network.run()
    return (spent[0] - calls[0] * overhead) / report.seconds
