"""How rows and watermarks of streams enter a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from headgate.graph.operators import Source
from headgate.operators.batch import FOREVER, Arrival, Batch
from headgate.operators.windows import highest
from headgate.runtime.dataflow import Flow
from headgate.runtime.state import NetworkState


class Intake:
    """Puts rows and watermarks into the queues of the streams' edges. Any thread may call it.

    - `after`: called without the lock when rows have entered, with the flow that may have run operators
    - `given_watermarks`: watermarks are set by `advance_to` instead of following the rows
    """

    def __init__(self, state: NetworkState, after: Callable[[Flow], None]) -> None:
        self._state = state
        self._clock = state.clock
        self._after = after
        self.given_watermarks = False

    def push(self, stream: str, rows: pa.RecordBatch, arrived: float | None = None, advance: bool = True) -> None:
        """See `Network.push`."""
        since = self._clock() if arrived is None else arrived
        source = self._source(stream)
        newest = None
        if source is not None and source.time is not None and rows.num_rows:
            newest = highest(rows.column(source.time))
        with self._entering() as flow:
            state = self._state
            if rows.num_rows:
                batch = Batch(rows, Arrival.at(since, rows.num_rows), state.sent[stream])
                state.loop.enter(stream, batch, since, flow)
            if newest is not None and source is not None:
                state.newest[stream] = max(state.newest.get(stream, newest), newest)
                if not self.given_watermarks:
                    state.watermarks[stream] = max(state.watermarks[stream], newest - source.delay)
            if advance:
                self._advance(stream, since, flow)

    def advance(self, stream: str, arrived: float | None = None) -> None:
        """See `Network.advance`."""
        since = self._clock() if arrived is None else arrived
        self._source(stream)
        with self._entering() as flow:
            self._advance(stream, since, flow)

    def advance_to(self, stream: str, newest: int, arrived: float | None = None) -> None:
        """See `Network.advance_to`."""
        source = self._source(stream)
        if source is not None:
            self.catch_up(stream, newest - source.delay, arrived)

    def catch_up(self, stream: str, watermark: int, arrived: float | None = None) -> None:
        """See `Network.catch_up`."""
        since = self._clock() if arrived is None else arrived
        source = self._source(stream)
        if source is None or source.time is None:
            return
        with self._entering() as flow:
            watermark = max(self._state.watermarks[stream], watermark)
            self._state.watermarks[stream] = watermark
            if watermark > self._state.sent[stream]:
                self._advance(stream, since, flow)

    def reach(self, stream: str, watermark: int) -> None:
        """See `Network.reach`."""
        since = self._clock()
        self._source(stream)
        with self._entering() as flow:
            self._state.watermarks[stream] = max(self._state.watermarks[stream], watermark)
            self._advance(stream, since, flow)

    def finish(self, streams: Iterable[str] | None = None) -> None:
        """See `Network.finish`."""
        since = self._clock()
        with self._entering() as flow:
            for stream in list(self._state.watermarks if streams is None else streams):
                self._state.watermarks[stream] = FOREVER
                self._advance(stream, since, flow)

    def _advance(self, stream: str, since: float, flow: Flow) -> None:
        state = self._state
        watermark = state.sent[stream] = state.watermarks[stream]
        state.loop.enter(stream, watermark, since, flow)

    @contextmanager
    def _entering(self) -> Iterator[Flow]:
        """Holds the lock to put rows in; if a stream has an edge without a queue, first waits until no grant runs."""
        flow = Flow(self._clock)
        with self._state.control.alone(lambda: self._state.loop.unqueued_sources):
            yield flow
        memory = self._state.memory
        if memory.bytes > memory.limit:
            memory.spill()
        self._after(flow)

    def _source(self, stream: str) -> Source | None:
        source = self._state.sources.get(stream)
        if source is not None or stream in self._state.watermarks:
            return source
        known = ", ".join(sorted(self._state.watermarks)) or "none"
        raise KeyError(f"no query reads a stream named {stream}; the streams read are: {known}")
