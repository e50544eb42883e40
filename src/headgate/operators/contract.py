"""The contract of live operators: what the runtime calls, and what it may rely on."""

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
    """A running operator. It knows nothing of queues, threads or Spark, and is used by one thread at a time.

    Every batch of a stream is followed by the stream's watermark (NEVER if it has none); the end of a stream is the
    watermark FOREVER. Results depend on the rows and the watermarks of each port, never on how rows are cut into
    batches between two watermarks, nor on how the ports are interleaved.
    """

    def process(self, port: int, batch: Batch) -> list[Batch]:
        """Processes rows of a port; returns the results that are ready."""
        ...

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        """Takes a watermark of a port; returns the rows that it completes and the watermark to pass on after them."""
        ...

    def snapshot(self) -> Snapshot:
        """The state now. It costs what changed since the last snapshot, and does not disturb the operator."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Restores a state; called once, on a new object."""
        ...

    @property
    def state_rows(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def late_rows(self) -> int:
        """Rows dropped because they were behind the watermark."""
        ...
