"""Drives one live operator with random streams: any cuts into batches, any interleaving, restored at any moment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headgate.graph.operators import Operator
from headgate.graph.types import Schema
from headgate.operators.batch import FOREVER, NEVER, Arrival, Batch
from headgate.operators.live import live
from headgate.operators.settings import Settings

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Feed:
    """One stream: epochs of rows; after each epoch its watermark is the highest time less the delay."""

    epochs: tuple[tuple[Row, ...], ...]
    delay: int
    time: int = 0

    def watermarks(self) -> list[int]:
        """The watermark when each epoch arrives."""
        watermarks = [NEVER]
        for rows in self.epochs:
            times = [row[self.time] for row in rows if row[self.time] is not None]
            watermarks.append(max([watermarks[-1], *(t - self.delay for t in times)]))
        return watermarks[:-1]

    def arrivals(self) -> Iterator[tuple[Row, int]]:
        """Each row with the watermark when it arrives."""
        for rows, watermark in zip(self.epochs, self.watermarks(), strict=True):
            for row in rows:
                yield row, watermark


def feeds(row: st.SearchStrategy[Row], delay: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Feed]:
    """Random streams."""
    epochs = st.lists(st.lists(row, max_size=8).map(tuple), max_size=5).map(tuple)
    return st.builds(Feed, epochs, delay if delay is not None else st.integers(0, 20))


def events(feed: Feed, chance: random.Random) -> list[tuple[str, Any, int]]:
    """A feed as rows in random cuts, each epoch followed by its watermark, and the end."""
    found: list[tuple[str, Any, int]] = []
    before = feed.watermarks()
    for rows, watermark, after in zip(feed.epochs, before, [*before[1:], None], strict=False):
        left = list(rows)
        while left:
            cut = chance.randint(1, len(left))
            found.append(("rows", left[:cut], watermark))
            left = left[cut:]
        if after is not None:
            found.append(("watermark", None, after))
    found.append(("watermark", None, FOREVER))
    return found


def batch_of(schema: Schema, rows: Sequence[Row], watermark: int) -> Batch:
    arrays = [pa.array([row[i] for row in rows], t) for i, t in enumerate(schema.types)]
    record = pa.RecordBatch.from_arrays(arrays, names=list(schema.names))
    return Batch(record, Arrival.at(1.0, len(rows)), watermark)


@dataclass
class Outcome:
    """The outcome: result rows, the number of late rows, and the state that was left."""

    rows: list[Row]
    late: int
    left: int


def drive(
    node: Operator,
    ports: Sequence[Sequence[Feed]],
    seed: int,
    restores: bool = True,
    settings: Settings | None = None,
    masked: bool = True,
) -> Outcome:
    """Runs a node over feeds. Several feeds on one port come as through a union: watermarks are their minimum."""
    chance = random.Random(seed)
    schemas = [source.schema for source in node.inputs]
    queues = [(port, n, events(feed, chance)) for port, given in enumerate(ports) for n, feed in enumerate(given)]
    watermarks = {(port, n): NEVER for port, n, _ in queues}
    operator = live(node, settings or Settings())
    rows: list[Row] = []
    passed = NEVER

    def take(batches: list[Batch]) -> None:
        for batch in batches:
            rows.extend(zip(*(c.to_pylist() for c in batch.materialized().rows.columns), strict=True))

    while any(waiting for _, _, waiting in queues):
        port, n, waiting = chance.choice([q for q in queues if q[2]])
        kind, given, watermark = waiting.pop(0)
        if kind == "rows":
            batch = batch_of(schemas[port], given, watermark)
            if masked and chance.random() < 0.5:
                batch = with_strangers(batch, chance)
            take(operator.process(port, batch))
        else:
            watermarks[port, n] = watermark
            lowest = min(m for (p, _), m in watermarks.items() if p == port)
            out, now = operator.advance(port, lowest)
            take(out)
            assert now >= passed, "the watermark that is passed on went back"
            passed = now
        if restores and chance.random() < 0.3:
            state = operator.snapshot()
            again = live(node, settings or Settings())
            again.restore(state)
            if chance.random() < 0.5:
                # The operator that was asked goes on unharmed, too; here the restored one takes its place.
                operator.snapshot()
            operator = again
    assert passed == FOREVER
    return Outcome(rows, operator.late_rows, operator.state_rows)


def with_strangers(batch: Batch, chance: random.Random) -> Batch:
    """The same rows under a pending selection, with rows between them that are not selected."""
    count = batch.rows.num_rows
    places = [chance.randrange(count) for _ in range(2 * count)]
    chosen = sorted(chance.sample(range(2 * count), count))
    for number, place in enumerate(chosen):
        places[place] = number
    picked = set(chosen)
    mask = pa.array([i in picked if chance.random() < 0.7 or i in picked else None for i in range(2 * count)])
    return Batch(batch.rows.take(pa.array(places)), Arrival.at(1.0, 2 * count), batch.watermark, mask)


def counted(rows: Sequence[Row], key: Callable[[Any], Any] = lambda v: v) -> Counter[Row]:
    """Rows as a multiset; structs as tuples, floating numbers so that NaN equals itself."""
    return Counter(tuple(plain(key(value)) for value in row) for row in rows)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(plain(v) for v in value.values())
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1_000_000)
    return value
