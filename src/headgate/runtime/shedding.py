"""Load shedding: drops a share of the rows of some queries where they enter the network (003 §3.3, 004 §6).

Rows are dropped for an operator that reads a stream (a leaf) if all queries that it serves are shed, and all or none of
them are scaled: the least of their shares, and never more, since the fraction of a row that is left over is carried to
the next batch. Without a utility expression rows are chosen at random; with one, those with the lowest values are
dropped first. What comes from another replica is not shed: its rows were, where they entered. A snapshot has the
fractions that are left over and the rows that no row stands for yet (`saved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.compiler import compiled
from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.operators.batch import Arrival, Batch
from headgate.operators.weights import even_weights, with_weights
from headgate.runtime.outbox import Outbox
from headgate.runtime.scaling import is_scaled
from headgate.scheduling import Topology


@dataclass
class ShedLeaf:
    """Operators at a leaf that are shed alike: their share, the queries that lose rows, the fraction carried over.

    If the queries are `scaled`, the rows that are kept get weights that add up to all rows; `unrepresented` is the
    number of those of which no row was kept yet.
    """

    share: float
    operators: frozenset[int]
    losers: Sequence[Outbox]
    utility: Callable[[Any], Any] | None = None
    carried: float = 0.0
    scaled: bool = False
    unrepresented: int = 0

    @property
    def serves(self) -> frozenset[int]:
        """What identifies the queries that lose rows, also when the network is rebuilt."""
        return frozenset(map(id, self.losers))

    def keep(self, batch: Batch, random: np.random.Generator) -> Batch:
        """The batch without the rows that are shed."""
        count = batch.rows.num_rows
        wanted = self.share * count + self.carried
        dropped = min(int(wanted + 1e-9), count)
        self.carried = wanted - dropped
        for outbox in self.losers:
            outbox.offered += count
            outbox.shed += dropped
        if not dropped and not self.unrepresented:
            return batch
        chosen = self._kept(batch, count - dropped, random)
        rows = batch.rows.take(pa.array(chosen))
        if self.scaled:
            total, self.unrepresented = count + self.unrepresented, 0
            if len(chosen):
                rows = with_weights(rows, pa.array(even_weights(total, len(chosen), random)))
            else:
                self.unrepresented = total
        arrival = Arrival(len(chosen), batch.arrival.total * len(chosen) / count, batch.arrival.first)
        return Batch(rows, arrival, batch.watermark)

    def _kept(self, batch: Batch, count: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
        size = batch.rows.num_rows
        # Rows of equal utility are chosen at random.
        order = random.permutation(size)
        if self.utility is not None:
            value = self.utility(batch)
            if isinstance(value, pa.Scalar):
                value = pa.repeat(value, size)
            numbers = pc.fill_null(value.cast(pa.float64(), safe=False), float("-inf")).to_numpy(zero_copy_only=False)
            order = order[np.argsort(-numbers[order], kind="stable")]
        return np.sort(order[:count])


@dataclass
class Shedding:
    """The load shedding of a network: groups of operators that are shed alike, by stream."""

    leaves: Mapping[str, Sequence[ShedLeaf]] = field(default_factory=dict)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(Random().getrandbits(63)))

    def kept(self, stream: str, batch: Batch) -> Iterator[tuple[frozenset[int], Batch]]:
        """Each group of operators that are shed alike, with the rows of a batch that it keeps."""
        for leaf in self.leaves.get(stream, ()):
            yield leaf.operators, leaf.keep(batch, self.random)


def shedding_of(
    topology: Topology, queries: Mapping[str, Query], outboxes: Mapping[str, Outbox], before: Shedding
) -> Shedding:
    """The load shedding that the queries' shares (`Query.shed`) require. It continues where the one `before` ended:
    rows that no row stands for yet are represented also if nothing is shed any more."""
    earlier = {(stream, leaf.serves): leaf for stream, leaves in before.leaves.items() for leaf in leaves}
    if not any(query.shed for query in queries.values()) and not any(leaf.unrepresented for leaf in earlier.values()):
        return Shedding()
    leaves: dict[str, list[ShedLeaf]] = {}
    for stream, edges in topology.stream_edges.items():
        if INTERNAL in stream:
            # Its rows stem from rows of which a share was dropped already.
            continue
        groups: dict[tuple[float, tuple[int, ...]], set[int]] = {}
        for edge in edges:
            operator = topology.edges[edge].consumer
            served = topology.serves[operator]
            share = min((shed_share(queries[topology.queries[q].name]) for q in served), default=0.0)
            # The results of an operator are either scaled or not.
            alike = len({is_scaled(queries[topology.queries[q].name]) for q in served}) == 1
            known = earlier.get((stream, frozenset(id(outboxes[topology.queries[q].name]) for q in served)))
            if alike and (share > 0 or (known is not None and known.unrepresented)):
                groups.setdefault((share, served), set()).add(operator)
        for (share, served), operators in groups.items():
            names = [topology.queries[q].name for q in served]
            utility = next((dict(queries[n].utilities).get(stream) for n in names if queries[n].utilities), None)
            run = compiled(utility).run if utility is not None else None
            losers = [outboxes[name] for name in names]
            leaf = ShedLeaf(share, frozenset(operators), losers, run, scaled=is_scaled(queries[names[0]]))
            known = earlier.get((stream, leaf.serves))
            if known is not None and known.scaled == leaf.scaled:
                leaf.carried, leaf.unrepresented = known.carried, known.unrepresented
            leaves.setdefault(stream, []).append(leaf)
    return Shedding(leaves)


def saved(shedding: Shedding) -> list[dict[str, Any]]:
    """What is carried over to the next batches, as plain values."""
    return [
        {
            "stream": stream,
            "queries": sorted(outbox.query.name for outbox in leaf.losers),
            "scaled": leaf.scaled,
            "carried": leaf.carried,
            "unrepresented": leaf.unrepresented,
        }
        for stream, leaves in shedding.leaves.items()
        for leaf in leaves
        if leaf.carried or leaf.unrepresented
    ]


def restored(known: Sequence[Mapping[str, Any]], outboxes: Mapping[str, Outbox]) -> Shedding:
    """A load shedding that `shedding_of` continues; without what belongs to queries that are gone."""
    leaves: dict[str, list[ShedLeaf]] = {}
    for each in known:
        if all(name in outboxes for name in each["queries"]):
            losers = [outboxes[name] for name in each["queries"]]
            figures = {name: each[name] for name in ("carried", "scaled", "unrepresented")}
            leaves.setdefault(each["stream"], []).append(ShedLeaf(0.0, frozenset(), losers, **figures))
    return Shedding(leaves)


def shed_share(query: Query) -> float:
    """The share of a query's rows that is shed: 0 without an accuracy spec, and never more than that allows."""
    return 0.0 if query.spec.accuracy is None else min(query.shed, 1 - query.spec.accuracy)
