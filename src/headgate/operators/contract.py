"""What every live operator offers: the contract between operators and whoever drives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headgate.operators.batch import Batch


@dataclass(frozen=True)
class Snapshot:
    """The state of one operator as immutable parts.

    A part's key changes whenever its rows change, so a part whose key was in the last snapshot need not be
    written again: that is what makes snapshots incremental. `meta` is small and JSON-able.
    """

    parts: Mapping[str, pa.Table] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(int(t.nbytes) for t in self.parts.values())


class LiveOperator(Protocol):
    """An operator at work. Knows nothing of queues, threads or Spark; used by one thread at a time.

    Every batch of a stream is followed by the stream's watermark (NEVER if it has none); the end of a stream is the
    watermark FOREVER. Results depend on the rows and the watermarks of each port, never on how rows are cut into
    batches between two watermarks, nor on how the ports are interleaved.
    """

    def process(self, port: int, batch: Batch) -> list[Batch]:
        """Takes rows from a port and gives those that are ready."""
        ...

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        """Takes a watermark of a port; returns the rows that it completes and the watermark to pass on behind them."""
        ...

    def snapshot(self) -> Snapshot:
        """The state now. Cheap where little changed; the operator goes on unharmed."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Takes back a state; called once, on a new object."""
        ...

    @property
    def state_rows(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def late_rows(self) -> int:
        """Rows dropped because they came behind the watermark."""
        ...
