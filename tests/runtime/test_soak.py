"""Everything that may happen to a network, in random order: always the results of one that nothing happened to."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.graph.queries import Query
from headgate.operators.runner import Runner
from headgate.runtime import Folder, Limits, Network
from headgate.scheduling import Cut, policies
from tests.runtime.plans import CRITICAL, above, both, columns, graph, per_window, query, rows, source, table

POLICIES = sorted({cls.name for cls in policies().values()} - {"mss", "tuple-greedy"})
MODES = ("policy", "direct", "graph", "operator", "hybrid")
TRAINS = ("", ":rows=1", ":rows=7", ":rows=13")
TEXTS = [
    name + train
    for name in POLICIES
    for train in TRAINS
    if not train or "rows" in getattr(policies()[name], "__dataclass_fields__", {})
]


def _queries() -> dict[str, Query]:
    s, t = source("s", 1_000_000), source("t")
    shared = above(s, 30)
    plans = {
        "all": s,
        "high": columns(above(shared, 60), 1, 2),
        "some": columns(shared, 2),
        "windows": per_window(shared),
        "both": both(columns(shared, 1, 2), columns(above(t, 50), 1, 2)),
        "merged": per_window(both(shared, above(t, 20)), 5),
    }
    return {name: query(name, plan, CRITICAL if name == "high" else plans_class) for name, plan in plans.items()}


plans_class = query("x", source()).cls
QUERIES = _queries()


class Soak(RuleBasedStateMachine):
    """A network against a runner for each query, made when the query was added.

    A query that is added while rows wait before an operator that it shares sees those too, so the network is run empty
    before one is added: then both see the same rows.
    """

    @initialize(
        policy=st.sampled_from(TEXTS),
        mode=st.sampled_from(MODES),
        memory=st.sampled_from([None, 1, 3000, 20_000]),
        names=st.sets(st.sampled_from(sorted(QUERIES)), min_size=1),
    )
    def start(self, policy: str, mode: str, memory: int | None, names: set[str]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.limits = Limits(memory=memory)
        self.seed = 0
        self.moment = {"s": 0.0, "t": 0.0}
        self.runners: dict[str, Runner] = {}
        self.taken: dict[str, list[pa.RecordBatch]] = {}
        self.network = self._network(sorted(names), policy, mode)
        for name in names:
            self._expect(name)

    def _network(self, names: list[str], policy: str, mode: str) -> Network:
        store = Folder(Path(self.folder.name), keep=True)
        shared = graph(*(QUERIES[name] for name in names))
        return Network(shared, policy, mode=mode, threads=3, limits=self.limits, store=store)

    def _expect(self, name: str) -> None:
        self.runners[name] = Runner(graph(QUERIES[name]))
        self.taken[name] = []

    @rule(stream=st.sampled_from(["s", "t"]), count=st.integers(0, 80), back=st.sampled_from([0.0, 0.5, 4.0]))
    def push(self, stream: str, count: int, back: float) -> None:
        """New rows, some of them late."""
        self.seed += 1
        batch = rows(count, self.seed, max(0.0, self.moment[stream] - back), 0.15, keys=3)
        self.moment[stream] += count * 0.15
        if stream in self.network.streams:
            self.network.push(stream, batch)
        for runner in self.runners.values():
            if stream in runner._sources:
                runner.push(stream, batch)

    @rule(budget=st.sampled_from([0.0, 0.0, 0.002, None]))
    def run(self, budget: float | None) -> None:
        self.network.run(budget)

    @rule(policy=st.sampled_from(TEXTS))
    def change_policy(self, policy: str) -> None:
        self.network.policy = policy

    @rule(mode=st.sampled_from(MODES))
    def change_mode(self, mode: str) -> None:
        self.network.mode = mode

    @rule(data=st.data())
    def flip_edges(self, data: st.DataObject) -> None:
        """Any edge may get or lose its queue at any moment."""
        with self.network._gate.alone():
            scheduler = self.network._loop.scheduler
            edges = range(len(scheduler.view.topology.edges))
            queued = data.draw(st.sets(st.sampled_from(edges))) if len(edges) else set()
            scheduler.change(Cut(frozenset(queued)))

    @rule(name=st.sampled_from(sorted(QUERIES)))
    def add(self, name: str) -> None:
        if name in self.runners:
            return
        self.network.run()
        if name in self.network.outboxes:
            self.network.take(name)
        self.network.add(QUERIES[name])
        self._expect(name)
        runner = self.runners[name]
        # It starts with the watermarks that its streams have reached; what is behind them is late for it too.
        for stream, found in runner._sources.items():
            for number, _ in found:
                runner._watermarks[number] = self.network._watermarks[stream]

    @precondition(lambda self: len(self.runners) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.runners)))
        self.network.run()
        self._take(name)
        self._compare(name)
        self.network.remove(name)
        del self.runners[name], self.taken[name]

    @rule(policy=st.sampled_from(TEXTS), mode=st.sampled_from(MODES), grants=st.integers(0, 3))
    def restart(self, policy: str, mode: str, grants: int) -> None:
        """Also in the middle of a batch: a budget that is spent at once is one grant."""
        for _ in range(grants):
            self.network.run(0.0)
        manifest = json.loads(json.dumps(self.network.snapshot()))
        self.network.close()
        self.network = self._network(sorted(self.runners), policy, mode)
        self.network.restore(manifest)

    @rule()
    def take(self) -> None:
        for name in self.runners:
            self._take(name)

    def _take(self, name: str) -> None:
        self.taken[name] += [result.rows for result in self.network.take(name)]

    def _compare(self, name: str) -> None:
        assert table(self.taken[name]) == table(self.runners[name].results(name).to_batches()), name

    @invariant()
    def memory_is_bounded(self) -> None:
        if hasattr(self, "network") and self.limits.memory is not None:
            assert self.network.held_bytes <= self.limits.memory

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        assert self.network.run().done
        self.take()
        for name in self.runners:
            self._compare(name)
        self.network.finish()
        self.network.run()
        self.take()
        for name, runner in self.runners.items():
            runner.finish()
            self._compare(name)
        assert not self.network.failures
        assert self.network.held_bytes == 0
        self.network.close()
        self.folder.cleanup()


TestSoak = Soak.TestCase
TestSoak.settings = settings(deadline=None, stateful_step_count=30)
