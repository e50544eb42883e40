"""Operators without state: watermarks pass through, and there is nothing to snapshot."""

from __future__ import annotations

from headgate.operators.batch import Batch
from headgate.operators.contract import Snapshot


class Stateless:
    """Everything of `LiveOperator` but `process`, which subclasses define."""

    state_rows = 0
    state_bytes = 0
    late_rows = 0

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        return [], watermark

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.parts or snapshot.meta:
            raise ValueError("an operator without state was given a state; does the checkpoint belong to another plan?")
