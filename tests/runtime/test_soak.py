"""Random sequences of every operation on a network give the results of an undisturbed one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.graph.queries import Query
from headgate.operators.runner import Runner
from headgate.runtime import Folder, Limits, Network, ResultBatch, result_table
from headgate.scheduling import Cut
from headgate.sql import Catalog
from tests.runtime.plans import (
    CRITICAL,
    REPORT,
    above,
    both,
    columns,
    failing,
    graph,
    per_window,
    query,
    rows,
    source,
    table,
)
from tests.runtime.ways import MODES, POLICIES, with_trains

TEXTS = [*POLICIES, *(with_trains(name, rows) for name in POLICIES for rows in (1, 7, 13))]
LIMITS = (None, 1, 3000, 20_000)

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
  USING json OPTIONS (path 'in');
CREATE STREAM t (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts) USING json OPTIONS (path 'in');
"""
SQL = {
    "joined": "SELECT s.k, s.v, t.v AS w FROM s JOIN t ON s.k = t.k AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 1 SECOND",
    "unmatched": "SELECT s.k, s.v, t.v AS w FROM s LEFT JOIN t ON s.k = t.k AND s.v = t.v "
    "AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 2 SECONDS WHERE s.v > 50",
    "counts": "SELECT k, count(*) AS n, max(v) AS most FROM s WHERE v > 10 GROUP BY k",
    "sessions": "SELECT session_window(ts, '1 second') AS w, k, count(*) AS n FROM t WHERE v > 60 "
    "GROUP BY session_window(ts, '1 second'), k",
    "distinct": "SELECT DISTINCT window(ts, '5 seconds') AS w, k FROM t",
}


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
    found = {name: query(name, plan, CRITICAL if name == "high" else REPORT) for name, plan in plans.items()}
    catalog = Catalog(time_zone="UTC")
    catalog.execute(STREAMS)
    return {**found, **{name: catalog.query(name, sql) for name, sql in SQL.items()}}


QUERIES = _queries()


def broken(values: pa.Array) -> pa.Array:
    raise RuntimeError("this function always fails")


BAD = query("bad", failing(above(source("s", 1_000_000), 30), f"{__name__}:broken"))


class Saved:
    """A snapshot to return to, the results taken before it, and the rows pushed after it."""

    def __init__(self, manifest: Mapping[str, Any], taken: Mapping[str, list[ResultBatch]]) -> None:
        self.manifest = json.loads(json.dumps(manifest))
        self.taken = {name: list(results) for name, results in taken.items()}
        self.since: list[tuple[str, pa.RecordBatch]] = []


class Soak(RuleBasedStateMachine):
    """A network against a runner for each query, made when the query was added.

    A query that is added while rows wait before an operator that it shares sees those too, so the network is run empty
    before one is added: then both see the same rows.
    """

    @initialize(
        policy=st.sampled_from(TEXTS),
        mode=st.sampled_from(MODES),
        memory=st.sampled_from(LIMITS),
        names=st.sets(st.sampled_from(sorted(QUERIES)), min_size=1),
    )
    def start(self, policy: str, mode: str, memory: int | None, names: set[str]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.memory = memory
        self.seed = 0
        self.moment = {"s": 0.0, "t": 0.0}
        self.runners: dict[str, Runner] = {}
        self.taken: dict[str, list[ResultBatch]] = {}
        self.saved: Saved | None = None
        self.network = self._network(sorted(names), policy, mode)
        for name in names:
            self._expect(name)

    def _network(self, names: list[str], policy: str, mode: str) -> Network:
        store = Folder(Path(self.folder.name), keep=True)
        shared = graph(*(QUERIES[name] for name in names))
        return Network(shared, policy, mode=mode, threads=3, limits=Limits(memory=self.memory), store=store)

    def _expect(self, name: str) -> None:
        self.runners[name] = Runner(graph(QUERIES[name]))
        self.taken[name] = []

    # Rows -------------------------------------------------------------------------------------------------

    @rule(stream=st.sampled_from(["s", "t"]), count=st.integers(0, 80), back=st.sampled_from([0.0, 0.5, 4.0]))
    def push(self, stream: str, count: int, back: float) -> None:
        """New rows, some of them late."""
        self.seed += 1
        batch = rows(count, self.seed, max(0.0, self.moment[stream] - back), 0.15, keys=3)
        self.moment[stream] += count * 0.15
        if stream in self.network.streams:
            self.network.push(stream, batch)
            if self.saved is not None:
                self.saved.since.append((stream, batch))
        for runner in self.runners.values():
            if stream in runner._sources:
                runner.push(stream, batch)

    @rule(budget=st.sampled_from([0.0, 0.0, 0.002, None]))
    def run(self, budget: float | None) -> None:
        self.network.run(budget)

    @rule(grants=st.integers(1, 5))
    def step(self, grants: int) -> None:
        for _ in range(grants):
            self.network.step()

    @rule()
    def take(self) -> None:
        for name in self.runners:
            self._take(name)

    # Changes ----------------------------------------------------------------------------------------------

    @rule(policy=st.sampled_from(TEXTS))
    def change_policy(self, policy: str) -> None:
        self.network.policy = policy

    @rule(mode=st.sampled_from(MODES))
    def change_mode(self, mode: str) -> None:
        self.network.mode = mode

    @rule(changes=st.lists(st.sampled_from([*POLICIES, *MODES, "push s", "push t", "take"]), min_size=1, max_size=6))
    def change_while_it_runs(self, changes: list[str]) -> None:
        """Changes while another thread is in `run`."""
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.network.run(0.05)
            except BaseException as error:
                failed.append(error)

        running = Thread(target=run)
        running.start()
        try:
            for change in changes:
                if change.startswith("push"):
                    self.push(change[-1], 40, 0.5)
                elif change == "take":
                    self.take()
                elif change in MODES:
                    self.network.mode = change
                else:
                    self.network.policy = change
        finally:
            running.join()
        assert not failed, failed

    @rule(data=st.data())
    def flip_edges(self, data: st.DataObject) -> None:
        """Any edge may get or lose its queue at any moment."""
        with self.network._control.alone():
            scheduler = self.network._state.loop.scheduler
            edges = range(len(scheduler.view.topology.edges))
            queued = data.draw(st.sets(st.sampled_from(edges))) if len(edges) else set()
            scheduler.change(Cut(frozenset(queued)))

    @rule(name=st.sampled_from(sorted(QUERIES)))
    def add(self, name: str) -> None:
        if name in self.runners:
            return
        self.saved = None
        self._run_empty()
        if name in self.network.outboxes:
            self.network.take(name)
        self.network.add(QUERIES[name])
        self._expect(name)
        runner = self.runners[name]
        # It starts with the present watermarks of its streams; rows behind them are late for it too.
        for stream, found in runner._sources.items():
            for number, _ in found:
                runner._watermarks[number] = self.network._state.watermarks[stream]

    @precondition(lambda self: len(self.runners) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.runners)))
        self.saved = None
        self._run_empty()
        self._take(name)
        self._compare(name)
        self.network.remove(name)
        del self.runners[name], self.taken[name]

    @rule()
    def add_one_that_fails(self) -> None:
        """It is removed with its error; the others are not affected."""
        self.saved = None
        self._run_empty()
        self.network.add(BAD)
        self.push("s", 60, 0.0)
        self.network.run()
        assert "this function always fails" in str(self.network.failures["bad"])
        assert set(self.network.queries) == set(self.runners)
        assert self.network.take("bad") == []

    # Snapshots --------------------------------------------------------------------------------------------

    @rule(policy=st.sampled_from(TEXTS), mode=st.sampled_from(MODES), memory=st.sampled_from(LIMITS))
    def restart(self, policy: str, mode: str, memory: int | None) -> None:
        """Also in the middle of a batch."""
        manifest = json.loads(json.dumps(self.network.snapshot()))
        self._go_on(manifest, policy, mode, memory)

    @rule()
    def save(self) -> None:
        """A snapshot; the network continues."""
        self.saved = Saved(self.network.snapshot(), self.taken)

    @precondition(lambda self: self.saved is not None)
    @rule(policy=st.sampled_from(TEXTS), mode=st.sampled_from(MODES), memory=st.sampled_from(LIMITS))
    def crash(self, policy: str, mode: str, memory: int | None) -> None:
        """Back to an earlier snapshot: rows pushed since are pushed again, results taken since are dropped."""
        saved = self.saved
        assert saved is not None
        self._go_on(saved.manifest, policy, mode, memory)
        self.taken = {name: list(results) for name, results in saved.taken.items()}
        for stream, batch in saved.since:
            self.network.push(stream, batch)

    def _go_on(self, manifest: Mapping[str, Any], policy: str, mode: str, memory: int | None) -> None:
        self.network.close()
        self.memory = memory
        self.network = self._network(sorted(self.runners), policy, mode)
        self.network.restore(manifest)

    # What must hold ---------------------------------------------------------------------------------------

    def _run_empty(self) -> None:
        report = self.network.run()
        assert report.done, f"{report} under {self.network._state.policy}, mode {self.network.mode}"

    def _take(self, name: str) -> None:
        self.taken[name] += self.network.take(name)

    def _compare(self, name: str) -> None:
        found = result_table(QUERIES[name], self.taken[name]).to_batches()
        assert table(found) == table(self.runners[name].results(name).to_batches()), name

    @invariant()
    def memory_is_bounded(self) -> None:
        if hasattr(self, "network") and self.memory is not None:
            assert self.network.memory_bytes <= self.memory

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        self._run_empty()
        self.take()
        for name in self.runners:
            self._compare(name)
        self.network.finish()
        self._run_empty()
        self.take()
        for name, runner in self.runners.items():
            runner.finish()
            self._compare(name)
        assert set(self.network.failures) <= {"bad"}
        assert self.network.memory_bytes == 0
        self.network.close()
        self.folder.cleanup()


TestSoak = Soak.TestCase
TestSoak.settings = settings(deadline=None, stateful_step_count=40, max_examples=min(settings().max_examples, 300))
