"""What it costs to measure every operator: the network as it is, against the same code without clocks and counters.

The other side is made from the source of the network itself: every statement that only measures is left out. So the
two differ in nothing else, whatever becomes of the network.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from itertools import count
from math import lcm
from statistics import median
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BOOLEAN, DOUBLE, TIMESTAMP, Schema
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.outcome import Outcome
from headgate.runtime import Network
from headgate.runtime.flow import SIZED, Flow
from headgate.runtime.loop import RARELY, Loop
from headgate.sql import Catalog

QUERIES, DEPTH = 200, 5
ROWS = 10_000
PAIRS, ROUNDS, WORK_ROUNDS = 5, 210, 40
POLICIES = {"one unit": "di:sources=queued", "a unit an operator": "fifo"}
"""Neither looks at statistics: both sides run the same units in the same order."""

COUNTERS = frozenset({"rows_in", "rows_out", "runs", "seconds", "timed", "watermark_seconds", "width", "stream_width"})
"""What the network notes of its operators, by the names of the attributes."""

STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
  USING json OPTIONS (path 'in');
CREATE STREAM b (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
  USING json OPTIONS (path 'in');
"""
MIXED = (
    "SELECT window(ts, '10 seconds') AS w, k % 100 AS g, count(*) AS n, avg(v) AS mean FROM a WHERE v > {low} "
    "GROUP BY window(ts, '10 seconds'), k % 100",
    "SELECT window(ts, '10 seconds', '5 seconds') AS w, max(v) AS most FROM b WHERE v < {high} "
    "GROUP BY window(ts, '10 seconds', '5 seconds')",
    "SELECT a.k, a.v, b.v AS u FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND "
    "WHERE a.v > {high} AND b.v > {low}",
    "SELECT k, v * 2 AS twice FROM a WHERE v > {low} AND k <> 7",
)
MIXES = 5
_ALL = pa.array(np.ones(ROWS, dtype=bool))

C = TypeVar("C", bound=type)
Graphs = Callable[[], SharedGraph]
Rows = Callable[[int], Sequence[tuple[str, pa.RecordBatch]]]


def run() -> Outcome:
    """Both workloads, all in one unit and a unit an operator; time is of this thread's processor."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        extra = {cut: _extra(policy) for cut, policy in POLICIES.items()}
        calls = {
            f"{name}, {cut}": _call(graph, rows, policy)
            for name, graph, rows in (("selections", _chains, _values), ("mixed", _mixed, _events))
            for cut, policy in POLICIES.items()
        }
    finally:
        pa.set_cpu_count(threads)
    share = {name: extra[name.split(", ")[1]] / call for name, call in calls.items()}
    return Outcome(
        name="statistics",
        source="goal: measuring every operator costs less than 1%",
        claim="clocks and counters of every operator take less than 1% of the time of aggregates, joins and selections",
        paper={"largest_share": 0.01},
        measured={
            "largest_share": max(found for name, found in share.items() if name.startswith("mixed")),
            "share": share,
            "a call of an operator (µs)": {name: call * 1e6 for name, call in calls.items()},
            "measuring it (µs)": {cut: seconds * 1e6 for cut, seconds in extra.items()},
        },
        rule=lambda asked, ours: ours["largest_share"] < asked["largest_share"],
        setup={
            "selections": f"{QUERIES} queries of {DEPTH} selections each",
            "mixed": f"{MIXES} times a tumbling and a hopping aggregate, a join and a selection",
            "rows a batch": ROWS,
            "policies": POLICIES,
            "pairs of networks": PAIRS,
            "rounds of each": ROUNDS,
            "measuring a call": "the selections, doing nothing, with measuring less without, both in turn",
            "time": "of the thread, the mean of the fastest tenth of each kind of rounds; the median pair",
            "left out on the other side": sorted(COUNTERS),
        },
    )


def _extra(policy: str) -> float:
    """What measuring adds to a call: the median of several pairs of networks, as it also hangs on where in memory they
    happen to lie."""
    return median(_pair(policy) for _ in range(PAIRS))


def _pair(policy: str) -> float:
    """Operators that do nothing leave nothing else that could hide what measuring adds."""
    make = _idle_masked if policy == POLICIES["one unit"] else _idle
    sides = [remade(Network(_chains(), policy, make=make), measuring) for measuring in (True, False)]
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(-2, ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds = _round(sides[side], _values(0))
            # What is made at the first use is no part of it.
            if turn >= 0:
                times[side].append(seconds)
    # Not every round is timed: rounds are compared with those that do the same of what is done now and then.
    alike = lcm(RARELY, SIZED)
    fastest = [np.mean([_fastest(of[place::alike]) for place in range(alike)]) for of in times]
    return float(fastest[0] - fastest[1]) / (QUERIES * DEPTH)


def _call(graph: Graphs, rows: Rows, policy: str) -> float:
    """What a call of an operator takes in a workload, with all that belongs to it."""
    network = Network(graph(), policy)
    times: list[float] = []
    for turn in range(WORK_ROUNDS):
        times.append(_round(network, rows(turn)))
        if turn == WORK_ROUNDS // 4:
            # The state has come to its size.
            times.clear()
    return _fastest(times) / _calls(network)


def _calls(network: Network) -> int:
    """Calls of operators in a round: one for each input; two where a state also takes the watermark."""
    wiring = network._loop.wiring
    return sum(len(wiring.topology.inputs[stage.id]) * (1 if stage.stateless else 2) for stage in wiring.stages)


def _fastest(times: Sequence[float]) -> float:
    return float(np.mean(np.sort(times)[: max(len(times) // 10, 1)]))


class _Idle(Stateless):
    """A selection that selects nothing: it gives the rows on as they are."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [Batch(batch.rows, batch.arrival, batch.watermark)]


class _IdleMasked(Stateless):
    """The same, with a mask over the rows as selections give it to the next in their unit."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [Batch(batch.rows, batch.arrival, batch.watermark, _ALL.slice(0, batch.rows.num_rows))]


def _idle(node: Operator, settings: Settings) -> LiveOperator:
    return _Idle() if isinstance(node, Select) else live(node, settings)


def _idle_masked(node: Operator, settings: Settings) -> LiveOperator:
    # The last one of a query gives whole rows, so that nothing is copied.
    depth = sum(isinstance(below, Select) for below in node.walk())
    return _IdleMasked() if 0 < depth < DEPTH else _idle(node, settings)


def _round(network: Network, batches: Sequence[tuple[str, pa.RecordBatch]]) -> float:
    began = time.thread_time()
    for stream, batch in batches:
        network.push(stream, batch)
    network.run()
    seconds = time.thread_time() - began
    for name in network.queries:
        network.take(name)
    return seconds


# The other side ------------------------------------------------------------------------------------------------


def remade(network: Network, measuring: bool) -> Network:
    """The same network from its source, with or without the measuring of its operators.

    Both sides are made in this way: an object whose class is changed is slower, by more than measuring costs.
    """
    network._flow = compiled(Flow, measuring)(network._clock)
    loop = network._loop
    loop.__class__ = compiled(Loop, measuring)
    if not measuring:
        loop.settle = _nothing  # type: ignore[method-assign]
    return network


def _nothing(now: float) -> None:
    """No statistics are made of what was not counted."""


def compiled(cls: C, measuring: bool) -> C:
    """A class from its source, whole, or less the statements that read the clock for, or count for, statistics."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    if not measuring:
        tree = ast.fix_missing_locations(_Strip().visit(tree))
        left = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _stored(node)}
        if left := left & COUNTERS - {"seconds", "rows_out", "stream_width"}:
            raise RuntimeError(f"{cls.__name__} still counts {sorted(left)}; teach this bench to leave that out")
    names = dict(vars(sys.modules[cls.__module__]))
    exec(compile(tree, inspect.getsourcefile(cls) or cls.__name__, "exec"), names)
    made: C = names[cls.__name__]
    return made


def _stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Strip(ast.NodeTransformer):
    """Leaves out what measures: counters that grow, the clock between operators, the widths of rows, and when to look.

    How many rows a selection has left is kept: where none are, nothing is given to the next.
    """

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        target = node.target
        # Of the flow itself the rows that left it are kept: the scheduler is told of them.
        own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        # What a unit's grants take is the grant's account, not an operator's.
        unit = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "unit"
        counts = isinstance(target, ast.Attribute) and target.attr in COUNTERS and not unit
        return None if counts and not (own and ast.unparse(target) == "self.rows_out") else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        text = ast.unparse(node)
        if text in (
            "every, timed, sized = (1, True, False)",
            "began = then = clock() if timed else 0.0",
            "then = clock()",
        ):
            return None
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if ast.unparse(node.test) == "timed" or "stage.due" in ast.unparse(node.body[0]):
            return None
        self.generic_visit(node)
        return node


# Workloads -----------------------------------------------------------------------------------------------------

VALUES = Schema.of(("a", DOUBLE), ("b", DOUBLE), ("c", DOUBLE))


def _chains() -> SharedGraph:
    """Queries of a few selections each, none shared."""
    graph = SharedGraph()
    source = Source(VALUES, "s")
    for number in range(QUERIES):
        plan: Operator = source
        for depth in range(DEPTH):
            limit = Literal(DOUBLE, 0.05 * depth + number * 1e-5)
            plan = Select(VALUES, plan, (Call(BOOLEAN, "gt", (Column(DOUBLE, depth % 3), limit)),))
        graph.add(Query(f"q{number}", plan, VALUES))
    return graph


def _values(turn: int) -> list[tuple[str, pa.RecordBatch]]:
    chance = np.random.default_rng(turn)
    columns = [pa.array(chance.random(ROWS)) for _ in range(3)]
    return [("s", pa.RecordBatch.from_arrays(columns, names=list(VALUES.names)))]


def _mixed() -> SharedGraph:
    """Aggregates, joins and selections over two streams, each several times with other constants."""
    catalog = Catalog(time_zone="UTC")
    catalog.execute(STREAMS)
    graph = SharedGraph()
    numbers = count()
    for mix in range(MIXES):
        for sql in MIXED:
            text = sql.format(low=0.1 + mix * 0.01, high=0.9 - mix * 0.01)
            graph.add(catalog.query(f"q{next(numbers)}", text))
    return graph


def _events(turn: int) -> list[tuple[str, pa.RecordBatch]]:
    """A second of each stream."""
    found: list[tuple[str, pa.RecordBatch]] = []
    for place, stream in enumerate("ab"):
        chance = np.random.default_rng((turn, place))
        times = turn * 1_000_000 + np.sort(chance.integers(0, 1_000_000, ROWS))
        columns: list[Any] = [
            pa.array(times).cast(TIMESTAMP),
            pa.array(chance.integers(0, ROWS, ROWS)),
            pa.array(chance.random(ROWS)),
        ]
        found.append((stream, pa.RecordBatch.from_arrays(columns, names=["ts", "k", "v"])))
    return found
