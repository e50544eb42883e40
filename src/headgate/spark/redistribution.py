"""Moves the state of operators to the replicas of another placement: rows of state go to the owners of their keys.

All replicas must be at the same point: no rows wait, all results are taken but those of paused queries
(`waiting_results.py`), and all watermarks are sent. The state of a query that is not in both placements is dropped, and
a new query starts without state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.expressions import Column, Expr, in_terms_of
from headgate.graph.operators import Operator, Partial
from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.operators.batch import Arrival, Batch
from headgate.operators.contract import Snapshot
from headgate.operators.division import Divisible, StateRows
from headgate.operators.evaluate import evaluate
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.runtime.dataflow import key_of
from headgate.runtime.snapshot import VERSION, parts_of
from headgate.runtime.state_parts import new_prefix, read_part, write_part
from headgate.runtime.store import Store
from headgate.scheduling import Performance
from headgate.spark import exchange
from headgate.spark.key_slots import owners
from headgate.spark.placement import Placement, Route, renamed, streams_of
from headgate.spark.splitting import traced
from headgate.spark.waiting_results import moved_results

Ints = npt.NDArray[np.int64]
Owners = Callable[[Sequence[pa.Array]], Ints]
"""The new owner of each row of keys: the same as where the rows of streams go."""
States = Mapping[str, Snapshot]
"""The states of a replica's operators, by their keys (`key_of`)."""


def redistributed(
    queries: Sequence[Query],
    old: Placement,
    new: Placement,
    manifests: Sequence[Mapping[str, Any]],
    sources: Sequence[Store],
    targets: Sequence[Store],
) -> list[dict[str, Any]]:
    """The manifests of the new replicas, from those of the old ones (of drained networks).

    `queries` are those that were declared before and still are. How one is divided into fragments (`exchange.py`)
    follows from the routes of each placement, and may differ.
    `sources` and `targets` hold the parts of the old and of the new replicas. Raises ValueError if the old replicas
    are not at the same point, or if rows wait in one.
    """
    for manifest in manifests:
        if manifest["queues"]:
            raise ValueError("state can be moved only when no rows wait; drain the queues first")
    states = [
        {
            key: Snapshot({name: read_part(store, part) for name, part in state["parts"].items()}, state["meta"])
            for key, state in manifest["operators"].items()
        }
        for manifest, store in zip(manifests, sources, strict=True)
    ]
    failures = {failure["query"]: failure for manifest in manifests for failure in manifest["failures"]}
    found = []
    shedding = _carried_over(queries, old, new, manifests)
    results = moved_results(queries, new, manifests, sources, targets)
    dropped = _dropped({query.name for query in queries}, new, manifests)
    for replica, moved in enumerate(moved_states(queries, old, new, states)):
        operators = {key: _written(targets[replica], key, state) for key, state in moved.items()}
        batches, outboxes = results[replica]
        names = _watermarks(old, new, replica, [manifest["watermarks"] for manifest in manifests])
        found.append(
            {
                "version": VERSION,
                "parts": parts_of(batches, operators),
                "batches": batches,
                "items": [],
                "queues": {},
                "outboxes": outboxes,
                "operators": operators,
                "performance": asdict(Performance()),
                "figures": json.dumps({"counters": {}, "outboxes": {}, "statistics": {}}),
                "dropped": dropped[replica],
                "shedding": shedding[replica],
                "watermarks": names,
                "marked": names,
                "policy": {"text": ""},
                "failures": list(failures.values()),
            }
        )
    return found


def moved_states(
    queries: Sequence[Query], old: Placement, new: Placement, states: Sequence[States]
) -> list[dict[str, Snapshot]]:
    """The states of every new replica's operators, from those of the old replicas."""
    found: list[dict[str, Snapshot]] = [{} for _ in range(new.replicas)]
    for query in queries:
        if query.name not in old.routes or query.name not in new.routes:
            continue
        for move in _moves(query, old, new):
            home = new.replica_of(move.part)
            homes = range(new.replicas) if home is None else (home,)
            target = key_of(_local(move.node, move.part, new))
            if all(target in found[replica] for replica in homes):
                continue
            own = [state for part, node in move.sources for state in _states_of(node, part, old, states)]
            if not own:
                continue
            if home is not None and len(own) == 1:
                found[home][target] = own[0]
            elif move.node.partition_keys is None and not move.node.stateful:
                for replica in homes:
                    found[replica][target] = own[0]
            else:
                found_by = partial(owners, new, streams_of(move.node)[0])
                shares = _shares(move.node, own, new.routes[move.part], new.replicas, home, found_by)
                for replica in homes:
                    found[replica][target] = shares[replica]
    return found


@dataclass(frozen=True)
class _Move:
    """The state of an operator of a part (a query, or a fragment of it) comes from these operators of old parts."""

    part: str
    node: Operator
    sources: tuple[tuple[str, Operator], ...]


def _moves(query: Query, old: Placement, new: Placement) -> Iterator[_Move]:
    """Where the state of each operator of a query comes from, also if it is divided at other exchanges. First halves
    that are new begin without state: their second halves have it."""
    before, after = (exchange.division_under(query, placement) for placement in (old, new))
    if before == after:
        for part in after.parts:
            yield from (_Move(part.name, node, ((part.name, node),)) for node in part.plan.walk() if node.inputs)
        return
    for declared in query.plan.walk():
        if not declared.inputs:
            continue
        copy = before.copies[declared][0]
        sources = [next(before.places(copy.node))]
        # The first half of an aggregate has already sent all its state.
        if copy.half is not None and not isinstance(copy.half, Partial):
            sources.append(next(before.places(copy.half)))
        for target in after.copies[declared]:
            yield from (_Move(part, node, tuple(sources)) for part, node in after.places(target.node))


def _local(node: Operator, part: str, placement: Placement) -> Operator:
    """An operator as replicas run it."""
    return renamed(node, {stream: route.local(stream) for stream, route in placement.routes[part].items()})


def _states_of(node: Operator, part: str, placement: Placement, states: Sequence[States]) -> list[Snapshot]:
    """The states of an operator on the replicas that have it."""
    key = key_of(_local(node, part, placement))
    home = placement.replica_of(part)
    return [each[key] for replica, each in enumerate(states) if key in each and home in (None, replica)]


def _shares(
    node: Operator,
    own: Sequence[Snapshot],
    routes: Mapping[str, Route],
    replicas: int,
    home: int | None,
    found_by: Owners,
) -> dict[int, Snapshot]:
    """The state of each new replica that has the operator."""
    operator = live(node, Settings())
    if not isinstance(operator, Divisible):
        raise ValueError(f"the state of a {node.kind} cannot be divided")
    state = StateRows.united([operator.opened(snapshot) for snapshot in own])
    if home is not None:
        return {home: operator.closed(state)}
    # Rows that may be anywhere, such as the candidates of a top-N, stay together.
    free = node.partition_keys is None
    locate = _to_first if free else partial(_located, located_keys(node, routes), found_by)
    return {
        replica: operator.closed(share)
        for replica, share in enumerate(state.divided(operator.state_keys, locate, replicas))
    }


def located_keys(node: Operator, routes: Mapping[str, Route]) -> tuple[Expr, ...]:
    """The keys of the route by which a stateful operator's rows come, as expressions over the operator's own keys."""
    stream = streams_of(node)[0]
    keys: list[Expr] = []
    columns: list[Expr] = []
    for number, exprs in enumerate(node.partition_keys or ()):
        for each, expr in zip(node.inputs, exprs, strict=True):
            part = traced(each, expr)
            if part is not None and stream in part:
                keys.append(part[stream])
                columns.append(Column(expr.type, number))
    found = [in_terms_of(key, keys, columns) for key in routes[stream].keys]
    known = tuple(expr for expr in found if expr is not None)
    if len(known) < len(found) or not known:
        raise ValueError(f"the state of {node.kind} {node.detail} is not divided by {routes[stream]}")
    return known


def _located(exprs: Sequence[Expr], found_by: Owners, keys: Sequence[pa.Array]) -> Ints:
    rows = pa.RecordBatch.from_arrays(list(keys), names=[str(number) for number in range(len(keys))])
    batch = Batch(rows, Arrival.at(0.0, rows.num_rows))
    return found_by([evaluate(expr, batch) for expr in exprs])


def _to_first(keys: Sequence[pa.Array]) -> Ints:
    return np.zeros(len(keys[0]), np.int64)


def _written(store: Store, stage: str, state: Snapshot) -> dict[str, Any]:
    prefix = new_prefix(stage)
    parts = {name: write_part(store, f"{prefix}-{name}", table) for name, table in state.parts.items()}
    return {"parts": parts, "meta": dict(state.meta)}


def _watermarks(old: Placement, new: Placement, replica: int, known: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The watermarks of streams under the local names of a new replica."""
    reached: dict[str, int] = {}
    for stream in old.streams:
        marks = [
            each[name] for route in old.routes_of(stream) for each in known if (name := route.local(stream)) in each
        ]
        if marks:
            reached[stream] = max(marks)
    return {
        route.local(stream): reached[stream]
        for query, routes in new.routes.items()
        if new.runs_on(query, replica)
        for stream, route in routes.items()
        if stream in reached
    }


def _carried_over(
    queries: Sequence[Query], old: Placement, new: Placement, manifests: Sequence[Mapping[str, Any]]
) -> list[list[dict[str, Any]]]:
    """What load shedding carries over (`runtime/shedding.py`), for each new replica: all is given to the first that has
    the operators. What is shed together with a query that is gone is left out."""
    parts = {query.name: exchange.division_under(query, new).parts for query in queries if query.name in new.routes}
    found: list[dict[tuple[str, tuple[str, ...], bool], dict[str, Any]]] = [{} for _ in range(new.replicas)]
    for known in (each for manifest in manifests for each in manifest.get("shedding", ())):
        routes = old.routes.get(known["queries"][0], {})
        stream = next((name for name, route in routes.items() if route.local(name) == known["stream"]), "")
        whole = [name.partition(INTERNAL)[0] for name in known["queries"]]
        names = [part.name for name in whole for part in parts.get(name, ()) if stream in streams_of(part.plan)]
        local = {new.routes[name][stream].local(stream) for name in names}
        if len(names) < len(whole) or len(local) != 1:
            continue
        key = (local.pop(), tuple(sorted(names)), known["scaled"])
        sums = found[new.replica_of(names[0]) or 0].setdefault(key, {"carried": 0.0, "unrepresented": 0})
        for figure in sums:
            sums[figure] += known[figure]
    return [
        [
            {"stream": stream, "queries": list(names), "scaled": scaled, **sums}
            for (stream, names, scaled), sums in each.items()
        ]
        for each in found
    ]


def _dropped(queries: Collection[str], new: Placement, manifests: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """The rows that paused queries have lost, counted on the first new replica of each."""
    found: list[dict[str, int]] = [{} for _ in range(new.replicas)]
    for name, count in ((name, count) for each in manifests for name, count in each.get("dropped", {}).items()):
        whole = name.partition(INTERNAL)[0]
        if whole in queries and whole in new.routes:
            counts = found[new.replica_of(whole) or 0]
            counts[whole] = counts.get(whole, 0) + count
    return found
