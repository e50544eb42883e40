"""Divides queries at exchanges, so that a part of their work is done on all replicas before rows come together.

A query whose rows must come together (an aggregate without keys, the top of each window, keys that differ from those
below) is divided into *fragments*. A fragment is an internal query; its results are the rows of an internal stream of
the same name, which the query, or another fragment, reads. Aggregates are divided into partial states, made of each
batch where the rows are, and their merge; a top into candidates and the top of them.

An internal stream has routes like any other, over the columns of the fragment's output; its rows do not pass through
Spark, so replicas hash their keys (`key_slots.py`). For each fragment a replica hands over, at the end of an epoch, the
results that it has taken and the watermark that they reach (`Network.reached`). A receiver takes the rows of all
senders with the next epoch, and then the lowest of the senders' watermarks (`Network.reach`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.expressions.functions import accumulator
from headgate.graph.operators import Aggregate, Candidates, Merge, Operator, Partial, Send, Source, Top
from headgate.graph.operators.exchange import INTERNAL
from headgate.graph.queries import Query
from headgate.graph.types import BIGINT, Field, Schema
from headgate.runtime.scaling import is_scaled
from headgate.spark.placement import streams_of
from headgate.spark.splitting import keys_of, splitting


@dataclass(frozen=True)
class Division:
    """A query in parts. `fragments` stand before those that read them; each is the internal stream of its name.

    `nodes` maps every operator of the plan as declared to the one in the parts that has its state (the second half, if
    it is divided), `halves` those that are divided to their first halves.
    """

    query: Query
    fragments: tuple[Query, ...] = ()
    nodes: Mapping[Operator, Operator] = field(default_factory=dict, compare=False)
    halves: Mapping[Operator, Operator] = field(default_factory=dict, compare=False)

    @property
    def parts(self) -> tuple[Query, ...]:
        """All queries that run in place of the declared one."""
        return (*self.fragments, self.query)


def divided(query: Query) -> Division:
    """A query divided at the exchanges that let a part of it run on all replicas; unchanged if there are none, or if it
    is a part of a divided query."""
    divider = _Divider(query)
    is_part = isinstance(query.plan, Send) or any(
        stream.startswith(f"{query.name}{INTERNAL}") for stream in streams_of(query.plan)
    )
    plan = query.plan if is_part else divider.above(query.plan)
    if not divider.fragments:
        return Division(query, (), {node: node for node in query.plan.walk()})
    return Division(replace(query, plan=plan), tuple(divider.fragments), divider.nodes, divider.halves)


class _Divider:
    """Divides one query: collects its fragments, and maps its operators to those of the parts."""

    def __init__(self, query: Query) -> None:
        self._query = query
        # A fragment is scaled if the whole query is, although it may be an aggregate where that is none.
        self._spec = replace(query.spec, scaled=True if is_scaled(query) else None)
        self.fragments: list[Query] = []
        self.nodes: dict[Operator, Operator] = {}
        self.halves: dict[Operator, Operator] = {}

    def above(self, node: Operator) -> Operator:
        """The plan with its topmost stateful operators divided where all their rows must come together."""
        if node.partition_keys is None:
            return self._over(node, tuple(self.above(each) for each in node.inputs))
        if not keys_of(node):
            if isinstance(node, Aggregate) and mergeable(node):
                return self._divided(Partial(partial_states(node), node.input, node), node)
            if isinstance(node, Top):
                given, top = node.input, (node.partition, node.order, node.count, node.ranking, node.time)
                return self._divided(Candidates(given.schema, given, *top), node)
        self.nodes |= {each: each for each in node.walk()}
        return node

    def _over(self, node: Operator, inputs: tuple[Operator, ...]) -> Operator:
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        self.nodes[node] = node if same else node.with_inputs(inputs)
        return self.nodes[node]

    def _divided(self, half: Operator, node: Operator) -> Operator:
        """The second half of an operator over the internal stream of the first; the operator itself if the first half
        would run on one replica too."""
        inputs = tuple(self.above(each) for each in half.inputs)
        half = half.with_inputs(inputs)
        if splitting(half) is None:
            return self._over(node, inputs)
        name = f"{self._query.name}{INTERNAL}{len(self.fragments)}"
        source = Source(half.schema, name)
        second = Merge(node.schema, source, node) if isinstance(node, Aggregate) else node.with_inputs((source,))
        self.nodes[node], self.halves[node] = second, half
        part = replace(self._query, name=name, plan=Send(half.schema, half), schema=half.schema)
        self.fragments.append(replace(part, sinks=(), mode="append", spec=self._spec))
        return second


def mergeable(node: Aggregate) -> bool:
    """Whether partial states can be merged: not of sessions, windows of rows and functions that depend on the order of
    rows, which replicas do not share."""
    if node.window is not None and node.window.kind != "time":
        return False
    return not any(accumulator(call).needs_order for call in node.calls)


def partial_states(node: Aggregate) -> Schema:
    """The columns of partial states."""
    keys = [Field(f"key{number}", key.type) for number, key in enumerate(node.keys)]
    types = [type_ for call in node.calls for type_ in accumulator(call).types]
    return Schema((Field("pane", BIGINT), *keys, *(Field(f"state{n}", type_) for n, type_ in enumerate(types))))
