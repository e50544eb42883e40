"""Runs inside the Spark task: feeds an epoch's rows to the network and returns its results and state.

The network outlives the task: Spark reuses the Python worker for the next epoch, which finds the network here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.delivery import HostWriters
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.task import ANSWER, DEAD_SCHEMA, Task

SOON = 0.02
"""Seconds after which an epoch with new rows ends once the highest class has its results: these are published with its
commit, and epochs without new rows process the backlog."""


@dataclass
class Live:
    """A network that stays in this process between epochs."""

    network: Network
    store: CheckpointStore
    checkpoint: Checkpoint
    epoch: int
    plan_name: str
    plan: Plan
    writers: HostWriters
    dropped: int = 0
    dead: list[pa.RecordBatch] = field(default_factory=list)


_live: dict[int, tuple[str, Live]] = {}


def work(task: Task) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _epoch(task, batches)

    return run


def _epoch(task: Task, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    began = time.perf_counter()
    live = _network(task)
    restored = time.perf_counter()
    live.store.begin(task.epoch, task.attempt)
    # Until this epoch is committed the network is ahead of the checkpoint; after a failed job it must not be reused.
    _live.pop(task.replica, None)
    before = set(live.network.failures)
    for failure in task.expression_failures:
        live.network.quarantine(failure.query, failure.operator, failure.detail, failure.error)
    if task.packing is None:
        for _ in batches:
            pass
    else:
        _feed(live, live.plan.packings[task.packing], batches, task)
    if task.finish:
        live.network.finish()
    fed = time.perf_counter()
    report = live.network.run(task.budget, None if task.packing is None or task.finish else SOON)
    ran = time.perf_counter()
    answer = _finish(task, live)
    saved = time.perf_counter()
    live.epoch = task.epoch
    _live[task.replica] = (task.run, live)
    answer.append(
        (
            "report",
            "",
            json.dumps(
                {
                    "waiting": report.waiting,
                    "selected": live.network.selected,
                    "grants": report.grants,
                    "failed": {n: str(f) for n, f in live.network.failures.items() if n not in before},
                    "seconds": {
                        "restore": restored - began,
                        "read": fed - restored,
                        "run": ran - fed,
                        "operators": report.operator_seconds,
                        "snapshot": saved - ran,
                    },
                }
            ).encode(),
        )
    )
    if task.detailed:
        answer.append(("metrics", "", json.dumps(live.network.metrics()).encode()))
    return pa.RecordBatch.from_pylist([dict(zip(ANSWER.names, row, strict=True)) for row in answer], ANSWER)


def _network(task: Task) -> Live:
    """The network at the state of the last committed epoch, under the plan of this one."""
    known = _live.get(task.replica)
    if known is not None and known[0] == task.run and known[1].epoch == task.after:
        live = known[1]
        if live.plan_name != task.plan:
            _replan(live, task.plan)
            live.writers = HostWriters(live.plan.delivery, live.checkpoint, task.run, task.replica)
        return live
    _live.pop(task.replica, None)
    checkpoint = Checkpoint(task.checkpoint)
    plan = Plan.load(checkpoint, task.plan)
    store = CheckpointStore(checkpoint)
    graph = SharedGraph()
    for query in plan.queries:
        graph.add(query)
    network = Network(
        graph,
        plan.policy,
        Settings(tables=plan.tables),
        limits=plan.limits,
        store=store,
        clock=time.time,
        mode=plan.mode,
        threads=plan.threads,
    )
    writers = HostWriters(plan.delivery, checkpoint, task.run, task.replica)
    live = Live(network, store, checkpoint, task.after, task.plan, plan, writers)
    if task.after >= 0:
        manifest = checkpoint.manifest(checkpoint.load(task.after).snapshots[task.replica])
        live.store.adopt(manifest)
        live.network.restore(manifest)
    return live


def _replan(live: Live, name: str) -> None:
    """Changes to another plan and keeps the state that both share."""
    plan = Plan.load(live.checkpoint, name)
    before = {query.name: query for query in live.plan.queries}
    after = {query.name: query for query in plan.queries}
    running = live.network.queries
    for old in before:
        if old in running and after.get(old) != before[old]:
            live.network.remove(old)
    for new, query in after.items():
        if before.get(new) != query:
            live.network.add(query)
    if plan.policy != live.plan.policy:
        live.network.policy = plan.policy
    if plan.mode != live.plan.mode:
        live.network.mode = plan.mode
    live.plan, live.plan_name = plan, name


def _feed(live: Live, packing: Packing, batches: Iterator[pa.RecordBatch], task: Task) -> None:
    """Pushes the rows into the network as they arrive. All rows of an epoch are behind the same watermark."""
    seen: set[str] = set()
    for packed in batches:
        for stream, rows, flaws in packing.unpack(packed):
            if flaws is not None and flaws.null_count < len(flaws):
                rows = _without_flaws(live, stream, rows, flaws)
            if rows.num_rows and stream in live.network.streams:
                live.network.push(stream, rows, task.arrived, advance=False)
                seen.add(stream)
    for stream in sorted(seen):
        live.network.advance(stream, task.arrived)


def _without_flaws(live: Live, stream: str, rows: pa.RecordBatch, flaws: pa.StringArray) -> pa.RecordBatch:
    """Moves malformed rows to the dead letters and returns the others."""
    good = pc.is_null(flaws)
    bad = flaws.filter(pc.invert(good))
    live.dead.append(
        pa.RecordBatch.from_arrays(
            [
                pa.array([stream] * len(bad)),
                pa.array(["the row does not have the declared columns"] * len(bad)),
                bad,
            ],
            schema=DEAD_SCHEMA,
        )
    )
    return rows.filter(good)


def _finish(task: Task, live: Live) -> list[tuple[str, str, bytes]]:
    """Makes results and state durable, and returns what the driver commits and publishes."""
    answer: list[tuple[str, str, bytes]] = []
    found: list[tuple[Query, pa.Table]] = []
    arrivals: dict[str, list[float]] = {}
    for query in live.plan.queries:
        results = live.network.take(query.name) if query.name in live.network.outboxes else []
        if results:
            found.append((query, pa.Table.from_batches([result.rows for result in results])))
            arrived = [result.arrival for result in results]
            arrivals[query.name] = [
                sum(a.count for a in arrived),
                sum(a.total for a in arrived),
                min(a.first for a in arrived),
            ]
    delivered = live.writers.deliver(found, live.dead, task.epoch, task.attempt)
    live.dead = []
    answer += [("result", name, data) for name, data in delivered.inline.items()]
    live.store.open_bundle()
    manifest = live.network.snapshot()
    place, files = live.store.close_bundle(manifest)
    answer.append(
        (
            "state",
            str(task.replica),
            json.dumps(
                {
                    "snapshot": asdict(place),
                    "files": files,
                    "failures": manifest["failures"],
                    **asdict(replace(delivered, inline={})),
                    "arrivals": arrivals,
                }
            ).encode(),
        )
    )
    return answer
