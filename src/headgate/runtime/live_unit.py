"""A unit as it runs: the queues that it reads, its totals, and its running grant."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.runtime.dataflow import Stage
from headgate.runtime.flight import mark_of
from headgate.runtime.queue import EdgeQueue, Piece, QueuedWatermark
from headgate.runtime.train_size import TrainSize


class UnitEntry:
    """A queue that a unit reads, and the stage (in the flight record: `mark`) and port that its rows enter."""

    __slots__ = ("edge", "mark", "port", "queue", "stage")

    def __init__(self, edge: int, queue: EdgeQueue, stage: Stage, port: int) -> None:
        self.edge = edge
        self.queue = queue
        self.stage = stage
        self.mark = mark_of(stage.key)
        self.port = port


class LiveUnit:
    """A unit, the totals of its grants (`grants`, `rows`, `seconds`, `slowest`), and its running grant, if any.

    Of the grant: it `began`, ends at `deadline`, has `taken` rows, and may take `left` more: the rows that were waiting
    when it began, up to the limit. Of the present `train`: it comes from `entry` and was taken at `train_began`;
    `passed` of its rows have passed the unit, and `last` is its last piece, which arrived at `since`.

    A unit has one grant at a time. Only the thread that runs the grant changes it, most fields under the lock.
    """

    __slots__ = (
        "began",
        "deadline",
        "entries",
        "entry",
        "grants",
        "id",
        "last",
        "left",
        "passed",
        "rows",
        "seconds",
        "since",
        "slowest",
        "taken",
        "train",
        "train_began",
        "train_size",
    )

    def __init__(self, id: int, entries: Sequence[UnitEntry], operators: int, cost: float) -> None:
        self.id = id
        self.entries = tuple(entries)
        self.train_size = TrainSize(operators, cost)
        self.grants = 0
        self.rows = 0
        self.seconds = 0.0
        self.slowest = 0.0
        self.entry = self.entries[0]
        self.began = self.deadline = self.train_began = self.left = self.since = 0.0
        self.train: Sequence[Piece | QueuedWatermark] = ()
        self.last: Piece | None = None
        self.passed = 0
        self.taken = 0
