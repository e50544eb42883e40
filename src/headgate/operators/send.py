"""The end of a fragment: rows pass, and the watermark up to which they are complete is kept for the receivers."""

from __future__ import annotations

from headgate.graph.operators import Send
from headgate.operators.batch import NEVER, Batch
from headgate.operators.contract import Snapshot
from headgate.operators.registry import implements
from headgate.operators.settings import Settings


@implements(Send)
class LiveSend:
    """`reached`: all results up to this watermark have left the fragment."""

    state_rows = 0
    state_bytes = 0
    late_rows = 0

    def __init__(self, node: Send, settings: Settings) -> None:
        self.reached = NEVER

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [batch]

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self.reached = max(self.reached, watermark)
        return [], watermark

    def snapshot(self) -> Snapshot:
        return Snapshot(meta={"reached": self.reached})

    def restore(self, snapshot: Snapshot) -> None:
        self.reached = snapshot.meta["reached"]
