"""Divides queries at exchanges, so that a part of their work is done on all replicas before rows come together.

A query whose rows must come together (an aggregate without keys, the top of each window, keys that differ from those
below) is divided into *fragments*. A fragment is an internal query; its results are the rows of an internal stream of
the same name, which the query, or another fragment, reads. Aggregates are divided into partial states, made of each
batch where the rows are, and their merge; a top into candidates and the top of them.

An internal stream has routes like any other, over the columns of the fragment's output; `owners` is the hash of its
keys, since its rows do not pass through Spark. For each fragment a replica hands over, at the end of an epoch, the
results that it has taken and the watermark that they reach (`Network.reached`). A receiver takes the rows of all
senders with the next epoch, and then the lowest of the senders' watermarks (`Network.reach`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.functions import accumulator
from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flatten
from headgate.graph.operators import Aggregate, Candidates, Merge, Operator, Partial, Send, Source, Top
from headgate.graph.queries import Query
from headgate.graph.types import BIGINT, Field, Schema
from headgate.spark.splitting import keys_of, splitting


@dataclass(frozen=True)
class Division:
    """A query in parts. `fragments` stand before those that read them; each is the internal stream of its name."""

    query: Query
    fragments: tuple[Query, ...] = ()


def divided(query: Query) -> Division:
    """A query divided at the exchanges that let a part of it run on all replicas; as it is if there are none."""
    fragments: list[Query] = []
    plan = _above(query.plan, query, fragments)
    return Division(replace(query, plan=plan), tuple(fragments)) if fragments else Division(query)


def owners(keys: Sequence[pa.Array], replicas: int) -> npt.NDArray[np.int64]:
    """The replica of each row of an internal stream by its keys."""
    flat = flatten(keys)
    return (hashed(flat, len(flat[0])) % np.uint64(replicas)).astype(np.int64)


def _above(node: Operator, query: Query, fragments: list[Query]) -> Operator:
    """The plan with its topmost stateful operators divided where all their rows must come together."""
    if node.partition_keys is None:
        inputs = tuple(_above(each, query, fragments) for each in node.inputs)
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        return node if same else node.with_inputs(inputs)
    if keys_of(node):
        return node
    if isinstance(node, Aggregate) and _mergeable(node):
        half: Operator = Partial(_states(node), node.input, node)
        return _divided(half, node, query, fragments)
    if isinstance(node, Top):
        half = Candidates(
            node.input.schema, node.input, node.partition, node.order, node.count, node.ranking, node.time
        )
        return _divided(half, node, query, fragments)
    return node


def _divided(half: Operator, node: Operator, query: Query, fragments: list[Query]) -> Operator:
    """The second half of an operator over the internal stream of the first; the operator itself if the first half
    would run on one replica too."""
    (given,) = half.inputs
    inputs = (_above(given, query, fragments),)
    half = half.with_inputs(inputs)
    if splitting(half) is None:
        return node if inputs[0] is given else node.with_inputs(inputs)
    name = f"{query.name}/{len(fragments)}"
    plan = Send(half.schema, half)
    fragments.append(replace(query, name=name, plan=plan, schema=half.schema, sinks=(), mode="append"))
    source = Source(half.schema, name)
    return Merge(node.schema, source, node) if isinstance(node, Aggregate) else node.with_inputs((source,))


def _mergeable(node: Aggregate) -> bool:
    """Not sessions, windows of rows, and functions of the order of rows, which replicas do not share."""
    if node.window is not None and node.window.kind != "time":
        return False
    return not any(accumulator(call).needs_order for call in node.calls)


def _states(node: Aggregate) -> Schema:
    """The columns of partial states."""
    keys = [Field(f"key{number}", key.type) for number, key in enumerate(node.keys)]
    types = [type_ for call in node.calls for type_ in accumulator(call).types]
    return Schema((Field("pane", BIGINT), *keys, *(Field(f"state{n}", type_) for n, type_ in enumerate(types))))
