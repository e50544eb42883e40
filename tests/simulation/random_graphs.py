"""Random query graphs for property tests: forks, joins, shared operators, several classes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from headgate.scheduling import Topology
from headgate.simulation import AggregateModel, Arrivals, JoinModel, Model, OperatorModel, RecordedArrivals

CLASSES = {"high": 6.0, "middle": 3.0, "low": 1.0}
POLICIES = (
    "rr:rows=1",
    "rr",
    "wrr",
    "fifo",
    "fifo:rows=1",
    "mtiq",
    "mtiq:rows=2",
    "greedy",
    "greedy:of=latency",
    "chain",
    "chain:rows=1",
    "path",
    "segment",
    "simplified:gamma=0.2",
    "threshold:limit=500,interval=20ms",
    "hr",
    "hnr",
    "chart-latency",
    "chart-memory",
    "mss",
    "mss:of=memory",
    "tuple-greedy",
    "train:by=latency",
    "train:by=cost",
    "train:by=memory",
    "cqc:k=10ms",
    "cqc:inner=chain,k=3ms",
    "amos:interval=30ms",
    "amos:interval=30ms,learner=ucb,policies=path+chart-memory+mtiq",
    "amos:interval=30ms,learner=thompson",
    "hmts:interval=50ms",
    "hmts:threads=2,inner=chain+fifo,placement=every",
    "gts:inner=chain",
    "ots",
    "di:sources=queued",
)


@dataclass(frozen=True)
class Case:
    """A graph with models and arrivals."""

    topology: Topology
    models: dict[str, Model]
    arrivals: dict[str, Arrivals]


@st.composite
def cases(draw: st.DrawFn, *, operators: int = 8, joins: bool = True) -> Case:
    """Up to `operators` operators over up to three streams; every operator may read any stream or operator
    before it, so forks, nested forks, diamonds and unions all occur."""
    streams = [f"s{n}" for n in range(draw(st.integers(1, 3)))]
    inputs: dict[str, list[str]] = {}
    models: dict[str, Model] = {}
    cost = st.sampled_from([0.0005, 0.001, 0.002, 0.005])
    for number in range(draw(st.integers(1, operators))):
        name = f"o{number}"
        before = st.sampled_from([*streams, *inputs])
        kind = draw(st.sampled_from(["map", "map", "union", "join", "aggregate"]))
        if kind == "join" and joins:
            inputs[name] = [draw(before), draw(before)]
            models[name] = JoinModel(draw(cost), 0.1, rows=draw(st.integers(1, 5)), probe=0.0001)
        elif kind == "union":
            inputs[name] = draw(st.lists(before, min_size=1, max_size=3))
            models[name] = OperatorModel(draw(cost))
        elif kind == "aggregate":
            inputs[name] = [draw(before)]
            models[name] = AggregateModel(draw(cost), rows=draw(st.integers(1, 4)))
        else:
            inputs[name] = [draw(before)]
            share = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5]))
            models[name] = OperatorModel(draw(cost), share, draw(st.sampled_from([None, 10.0, 200.0])))
    used = {source for sources in inputs.values() for source in sources}
    fed = {source for source in used if source in inputs}
    ends = [name for name in inputs if name not in fed]
    extra = draw(st.lists(st.sampled_from(sorted(inputs)), max_size=2, unique=True))
    queries = {f"q{n}": (end, draw(st.sampled_from(sorted(CLASSES)))) for n, end in enumerate([*ends, *extra])}
    arrivals: dict[str, Arrivals] = {}
    for stream in streams:
        if stream in used:
            gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.01, 0.05]), min_size=1, max_size=12))
            moments, now = [], 0.0
            for gap in gaps:
                now += gap
                moments.append(now)
            arrivals[stream] = RecordedArrivals(tuple(moments))
    return Case(Topology.of(inputs, queries=queries, classes=CLASSES), models, arrivals)
