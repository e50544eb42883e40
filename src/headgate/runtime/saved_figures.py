"""The figures in a snapshot: counts, costs and latencies, which change with every grant and need not be exact."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.runtime.state import NetworkState

EVERY = 1.0
"""Seconds for which the text is reused: with 200 queries, writing it takes three quarters of a snapshot's time."""


class SavedFigures:
    """The figures of a network as JSON text. Used while no grant runs."""

    def __init__(self) -> None:
        self._text = ""
        self._made = float("-inf")

    def text(self, state: NetworkState) -> str:
        """The figures, at most `EVERY` seconds old."""
        now = time.monotonic()
        if now - self._made >= EVERY:
            self._made = now
            state.loop.measurement.update(state.clock())
            self._text = json.dumps(
                {
                    "counters": {s.key: [s.rows_in, s.rows_out, s.runs, s.spent, s.width] for s in state.wiring.stages},
                    "outboxes": {
                        name: {"rows": outbox.rows, "latency": outbox.latency.state()}
                        for name, outbox in state.outboxes.items()
                    },
                    "statistics": state.figures(),
                },
                separators=(",", ":"),
            )
        return self._text
