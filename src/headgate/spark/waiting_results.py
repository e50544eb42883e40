"""Moves the results that wait for paused queries to the replicas of another placement.

The new results of a query that updates come from the replica that owns their key. Earlier ones with the same identity
must come from there, too: what two replicas publish in one epoch has no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Column, Expr, in_terms_of
from headgate.graph.queries import Query
from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate
from headgate.runtime.state_parts import new_prefix
from headgate.runtime.store import Store
from headgate.spark.exchange import division_under
from headgate.spark.key_slots import owners
from headgate.spark.placement import Placement, streams_of
from headgate.spark.splitting import traced

Waiting = tuple[list[dict[str, Any]], dict[str, list[int]]]
"""Batches and outboxes as in a manifest (`runtime/snapshot.py`)."""


def moved_results(
    queries: Sequence[Query],
    new: Placement,
    manifests: Sequence[Mapping[str, Any]],
    sources: Sequence[Store],
    targets: Sequence[Store],
) -> list[Waiting]:
    """The results of these queries for each new replica; those of others are left out. ValueError if those of one
    cannot be divided."""
    known = {query.name: query for query in queries if query.name in new.routes}
    found: list[Waiting] = [([], {}) for _ in range(new.replicas)]
    for manifest, source in zip(manifests, sources, strict=True):
        for name in known.keys() & manifest["outboxes"].keys():
            for batch in (manifest["batches"][number] for number in manifest["outboxes"][name]):
                _, total, first = batch["arrival"]
                for replica, rows in _shares(known[name], new, source.read(batch["part"], batch["index"])):
                    batches, outboxes = found[replica]
                    key, share = new_prefix("results"), rows.num_rows / batch["rows"]
                    targets[replica].write(key, [rows])
                    outboxes.setdefault(name, []).append(len(batches))
                    arrival = [rows.num_rows, total * share, first]
                    batches.append({**batch, "part": key, "index": 0, "rows": rows.num_rows, "arrival": arrival})
    return found


def _shares(query: Query, new: Placement, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows that each replica gets, if any. Rows that no other replaces may be anywhere."""
    home = new.replica_of(query.name)
    if home is not None or query.mode != "update":
        yield home or 0, rows
        return
    stream, keys = _identity_keys(query, new)
    batch = Batch(rows, Arrival.at(0.0, rows.num_rows))
    places = owners(new, stream, [evaluate(key, batch) for key in keys])
    for replica in np.unique(places).tolist():
        yield replica, rows.filter(pa.array(places == replica))


def _identity_keys(query: Query, new: Placement) -> tuple[str, list[Expr]]:
    """A stream of a query that updates, and the keys of its route as expressions over the columns that identify the
    query's rows."""
    plan = division_under(query, new).query.plan
    stream = streams_of(plan)[0]
    route = new.routes[query.name][stream]
    columns = [Column(plan.schema[place].type, place) for place in range(query.visible, len(plan.schema) - 1)]
    parts = [(column, traced(plan, column)) for column in columns]
    located = [(column, part[stream]) for column, part in parts if part is not None and stream in part]
    found = [in_terms_of(key, [key for _, key in located], [column for column, _ in located]) for key in route.keys]
    keys = [key for key in found if key is not None]
    if not keys or len(keys) < len(found):
        raise ValueError(
            f"query {query.name} is paused, and its results cannot be divided among replicas by {route}; resume or stop"
            " it before the number of replicas changes"
        )
    return stream, keys
