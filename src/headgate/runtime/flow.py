"""One pass through a unit: an item goes depth first over the direct edges, as in direct interoperability (000 §2.4)."""

from __future__ import annotations

from collections.abc import Callable

from headgate.operators.batch import Batch
from headgate.runtime.outbox import Outbox
from headgate.runtime.stage import Stage

Emitted = tuple[Stage, Batch | int, tuple[int, ...], tuple[Outbox, ...]]
"""What leaves a unit: its maker, rows or a watermark, the edges that it is for, and the queries whose result it is."""

SIZED = 21
"""One pass in so many is looked at for the width of the rows that operators put out."""


class Flow:
    """Takes batches and watermarks through the operators of a unit. One object a thread.

    Rows are counted always. Where batches come often (`Stage.every`), one pass in so many is timed, and one in `SIZED`
    is looked at for the width of rows: measuring is to cost nothing beside the work.

    What leaves the unit is collected in `emitted`, in order. An operator that raises is marked as failed and noted in
    `errors`; the item still goes to all others. `unit` is the unit that it runs or ran last, `since` when that began.
    """

    __slots__ = ("_clock", "emitted", "errors", "rows_out", "seconds", "since", "unit")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.emitted: list[Emitted] = []
        self.errors: list[tuple[Stage, Exception]] = []
        self.seconds = 0.0
        self.rows_out = 0
        self.unit = 0
        self.since = 0.0

    def run(self, stage: Stage, port: int, item: Batch | int, rows: int) -> None:
        """Takes one batch of so many selected rows, or a watermark, in at a port."""
        clock, emitted = self._clock, self.emitted
        if rows == 0 and stage.passes is not None and not stage.passes[0] and not stage.failed:
            # A watermark that changes nothing in this unit.
            if stage.passes[1]:
                emitted.append((stage, item, stage.passes[1], ()))
            return
        # What comes last is taken first: consumers are put on in reverse, so each batch is through before the next.
        todo: list[tuple[Stage, int, Batch | int, int]] = [(stage, port, item, rows)]
        every, timed, sized = 1, True, False
        if rows:
            stage.due -= 1
            timed = stage.due <= 0
            if timed:
                every = stage.due = stage.every
                stage.runs += every
                sized = not stage.runs % SIZED
        began = then = clock() if timed else 0.0
        while todo:
            stage, port, item, rows = todo.pop()
            if stage.failed:
                continue
            try:
                if isinstance(item, Batch):
                    made = stage.process(port, item)
                    stage.rows_in += rows
                    if made:
                        given = self._forward(stage, made, todo)
                elif stage.passes is None:
                    made, watermark = stage.live.advance(port, item)
                    self._forward_watermark(stage, made, watermark, todo)
                else:
                    targets, edges = stage.passes
                    if edges:
                        emitted.append((stage, item, edges, ()))
                    for consumer, into in reversed(targets):
                        todo.append((consumer, into, item, 0))
                    continue
            except Exception as error:  # whatever a user's function raises fails its queries, never the network
                stage.failed = True
                self.errors.append((stage, error))
                then = clock()
                continue
            # One clock reading between operators: what carries out a selection is part of the operator that made it.
            if timed:
                now = clock()
                if rows:
                    stage.seconds += now - then
                    stage.timed += rows
                    if sized and made and given.rows.num_rows:
                        stage.width = given.rows.get_total_buffer_size() / given.rows.num_rows
                else:
                    stage.watermark_seconds += now - then
                then = now
        if timed:
            self.seconds += (then - began) * every

    def _forward_watermark(
        self,
        stage: Stage,
        made: list[Batch],
        watermark: int | None,
        todo: list[tuple[Stage, int, Batch | int, int]],
    ) -> None:
        """Passes on what a watermark made an operator put out, and behind it the watermark, if there is one now."""
        if watermark is not None:
            for consumer, into in reversed(stage.direct):
                todo.append((consumer, into, watermark, 0))
        if made:
            self._forward(stage, made, todo)
        if watermark is not None and stage.queued:
            self.emitted.append((stage, watermark, stage.queued, ()))

    def _forward(self, stage: Stage, made: list[Batch], todo: list[tuple[Stage, int, Batch | int, int]]) -> Batch:
        """Passes results on: to direct consumers by way of `todo`, to queues and outboxes by way of `emitted`.

        Gives the last of them.
        """
        place = len(todo)
        for batch in made:
            mask = batch.mask
            if mask is None:
                rows = batch.rows.num_rows
            elif stage.settles:
                # Carried out once, for all who keep the rows.
                batch = batch.taken()
                rows = batch.rows.num_rows
            else:
                rows = mask.true_count
            if not rows:
                continue
            stage.rows_out += rows
            if stage.leaves:
                self.emitted.append((stage, batch, stage.queued, stage.outboxes))
                self.rows_out += rows
            for consumer, into in stage.direct:
                # Before what was put on so far, which is taken first.
                todo.insert(place, (consumer, into, batch, rows))
        return batch
