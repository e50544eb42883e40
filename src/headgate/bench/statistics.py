"""Cost of measuring every operator: the network compared with the same code without clocks and counters.

The other side is compiled from the source of the network without the statements that only measure, so the two sides
never differ in anything else.
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

from headgate.bench.chains import DEPTH, QUERIES, STREAM, chains, values
from headgate.bench.timing import one_arrow_thread
from headgate.graph.operators import Operator, Select
from headgate.graph.shared import SharedGraph
from headgate.graph.types import TIMESTAMP
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.outcome import Outcome
from headgate.runtime import Network
from headgate.runtime.dataflow import WIDTH_ONE_IN, Flow
from headgate.runtime.measurement import SAMPLED_ONE_IN
from headgate.sql import Catalog

ROWS = 10_000
PAIRS, ROUNDS, WORK_ROUNDS = 5, 210, 40
POLICIES = {"one unit": "di:sources=queued", "a unit an operator": "fifo"}
"""Neither policy uses statistics: both sides run the same units in the same order."""

COUNTERS = frozenset({"rows_in", "rows_out", "runs", "seconds", "timed", "watermark_seconds", "width"})
"""The attributes in which the network counts for its operators."""

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
    """Both workloads, as one unit and with a unit per operator, in processor time of this thread."""
    with one_arrow_thread():
        extra = {cut: _extra(policy) for cut, policy in POLICIES.items()}
        calls = {
            f"{name}, {cut}": _call(graph, rows, policy)
            for name, graph, rows in (("selections", chains, _values), ("mixed", _mixed, _events))
            for cut, policy in POLICIES.items()
        }
    share = {name: extra[name.split(", ")[1]] / call for name, call in calls.items()}
    return Outcome(
        name="statistics",
        source="goal: measuring every operator costs less than 1%",
        claim="clocks and counters of every operator take less than 1% of the time of aggregates, joins and selections",
        paper={"largest_share": 0.01},
        measured={
            "largest_share": max(value for name, value in share.items() if name.startswith("mixed")),
            "share": share,
            "a call of an operator (µs)": {name: call * 1e6 for name, call in calls.items()},
            "measuring it (µs)": {cut: seconds * 1e6 for cut, seconds in extra.items()},
        },
        rule=lambda goal, measured: measured["largest_share"] < goal["largest_share"],
        setup={
            "selections": f"{QUERIES} queries of {DEPTH} selections each",
            "mixed": f"{MIXES} times a tumbling and a hopping aggregate, a join and a selection",
            "rows a batch": ROWS,
            "policies": POLICIES,
            "pairs of networks": PAIRS,
            "rounds of each": ROUNDS,
            "measuring a call": "difference between selections that do nothing with and without measuring, in turn",
            "time": "processor time of the thread: mean of the fastest tenth of each kind of round, median pair",
            "left out on the other side": sorted(COUNTERS),
        },
    )


def _extra(policy: str) -> float:
    """Time that measuring adds to a call: the median of several pairs of networks, since their place in memory also
    matters."""
    return median(_pair(policy) for _ in range(PAIRS))


def _pair(policy: str) -> float:
    """The difference between a pair of networks; operators that do nothing make it visible."""
    make = _idle_masked if policy == POLICIES["one unit"] else _idle
    sides = [recompiled(Network(chains(), policy, make=make), measuring) for measuring in (True, False)]
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(-2, ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds = _round(sides[side], _values(0))
            # The first rounds include one-time work.
            if turn >= 0:
                times[side].append(seconds)
    # Some rounds time or size their batches and others do not: only rounds of the same kind are compared.
    kinds = lcm(SAMPLED_ONE_IN, WIDTH_ONE_IN)
    fastest = [np.mean([_fastest(side[kind::kinds]) for kind in range(kinds)]) for side in times]
    return float(fastest[0] - fastest[1]) / (QUERIES * DEPTH)


def _call(graph: Graphs, rows: Rows, policy: str) -> float:
    """Time per call of an operator in a workload, including queues and scheduling."""
    network = Network(graph(), policy)
    times: list[float] = []
    for turn in range(WORK_ROUNDS):
        times.append(_round(network, rows(turn)))
        if turn == WORK_ROUNDS // 4:
            # The state has reached its final size.
            times.clear()
    return _fastest(times) / _calls(network)


def _calls(network: Network) -> int:
    """Calls of operators in a round: one for each input; two where a state also takes the watermark."""
    wiring = network._state.wiring
    return sum(len(wiring.topology.inputs[stage.id]) * (1 if stage.stateless else 2) for stage in wiring.stages)


def _fastest(times: Sequence[float]) -> float:
    return float(np.mean(np.sort(times)[: max(len(times) // 10, 1)]))


class _Idle(Stateless):
    """Stands for a selection: passes its rows on unchanged."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [Batch(batch.rows, batch.arrival, batch.watermark)]


class _IdleMasked(Stateless):
    """The same with a mask over the rows, as selections pass it on within their unit."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [Batch(batch.rows, batch.arrival, batch.watermark, _ALL.slice(0, batch.rows.num_rows))]


def _idle(node: Operator, settings: Settings) -> LiveOperator:
    return _Idle() if isinstance(node, Select) else live(node, settings)


def _idle_masked(node: Operator, settings: Settings) -> LiveOperator:
    # The last operator of a query emits rows without a mask, so that nothing is copied.
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


# The side without measurements ------------------------------------------------------------------------------------


def recompiled(network: Network, measuring: bool) -> Network:
    """The network with its flow recompiled from source, with or without measurements."""
    network._grants.flow = compiled(Flow, measuring)(network._clock)
    if not measuring:
        network._state.loop.measurement.update = _no_update  # type: ignore[method-assign]
    return network


def _no_update(now: float) -> None:
    """Replaces the update of statistics, which has nothing to read."""


def compiled(cls: C, measuring: bool) -> C:
    """A class compiled from its source, complete or without the statements that measure."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    if not measuring:
        tree = ast.fix_missing_locations(_Strip().visit(tree))
        left = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _stored(node)}
        if left := left & COUNTERS - {"seconds", "rows_out"}:
            raise RuntimeError(f"{cls.__name__} still counts {sorted(left)}; extend _Strip to remove these statements")
    names = dict(vars(sys.modules[cls.__module__]))
    exec(compile(tree, inspect.getsourcefile(cls) or cls.__name__, "exec"), names)
    made: C = names[cls.__name__]
    return made


def _stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Strip(ast.NodeTransformer):
    """Removes the statements that measure: counters, the clock between operators, row widths, and the sampling.

    The number of rows that pass a selection is kept: if there are none, the next operator is not called.
    """

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        target = node.target
        # The flow's own number of output rows is kept: it is reported to the scheduler.
        own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        counts = isinstance(target, ast.Attribute) and target.attr in COUNTERS
        return None if counts and not (own and ast.unparse(target) == "self.rows_out") else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        text = ast.unparse(node)
        if text in (
            "sampling, timed, sized = (1, True, False)",
            "began = then = clock() if timed else 0.0",
            "then = clock()",
        ):
            return None
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if ast.unparse(node.test) == "timed" or "stage.until_timed" in ast.unparse(node.body[0]):
            return None
        self.generic_visit(node)
        return node


# Workloads -----------------------------------------------------------------------------------------------------


def _values(turn: int) -> list[tuple[str, pa.RecordBatch]]:
    return [(STREAM, values(ROWS, turn))]


def _mixed() -> SharedGraph:
    """Aggregates, joins and selections over two streams, several times with different constants."""
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
    """A second of event time on each stream."""
    batches: list[tuple[str, pa.RecordBatch]] = []
    for place, stream in enumerate("ab"):
        random = np.random.default_rng((turn, place))
        times = turn * 1_000_000 + np.sort(random.integers(0, 1_000_000, ROWS))
        columns: list[Any] = [
            pa.array(times).cast(TIMESTAMP),
            pa.array(random.integers(0, ROWS, ROWS)),
            pa.array(random.random(ROWS)),
        ]
        batches.append((stream, pa.RecordBatch.from_arrays(columns, names=["ts", "k", "v"])))
    return batches
