"""All rows of all inputs, in order of arrival."""

from __future__ import annotations

from headgate.graph.operators import Union
from headgate.operators.batch import NEVER, Batch
from headgate.operators.columns import renamed
from headgate.operators.contract import Snapshot
from headgate.operators.registry import implements
from headgate.operators.settings import Settings


@implements(Union)
class LiveUnion:
    """Merges several inputs. The watermark it passes on is the lowest of its inputs'."""

    state_rows = 0
    state_bytes = 0
    late_rows = 0

    def __init__(self, node: Union, settings: Settings) -> None:
        self._schema = node.schema
        self._watermarks = [NEVER] * len(node.parts)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        rows = renamed(batch.rows, self._schema)
        return [Batch(rows, batch.arrival, batch.watermark, batch.mask)]

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self._watermarks[port] = watermark
        return [], min(self._watermarks)

    def snapshot(self) -> Snapshot:
        return Snapshot(meta={"marks": list(self._watermarks)})

    def restore(self, snapshot: Snapshot) -> None:
        self._watermarks = list(snapshot.meta["marks"])
