"""One live operator in the network: where its results go under the present cut, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.operators.contract import LiveOperator
from headgate.operators.stateless import Stateless
from headgate.runtime.outbox import Outbox


class Stage:
    """An operator at its place. The counters only grow, so that a reader in another thread never tears them: rows in
    and out; `runs`, the batches that entered a unit here, of which one in `every` is timed (in `due` passes the next);
    the `seconds` that the `timed` rows took, and those of `watermark_seconds`.

    `direct` are the consumers that it calls, by port; `queued` the edges that it writes to; `leaves`: there are such
    edges, or outboxes. `passes`: where a watermark goes from here, if watermarks change nothing here: (stages with
    state and their ports, edges).
    `settles`: a pending selection is carried out here, because someone keeps the rows. `tracked`: what it puts out
    may share memory with other batches that are held.
    """

    __slots__ = (
        "cls",
        "direct",
        "due",
        "every",
        "failed",
        "id",
        "key",
        "kind",
        "leaves",
        "live",
        "number",
        "outboxes",
        "passes",
        "process",
        "queued",
        "rows_in",
        "rows_out",
        "runs",
        "seconds",
        "settles",
        "timed",
        "tracked",
        "watermark_seconds",
        "width",
    )

    def __init__(self, id: int, number: int, kind: str, key: str, live: LiveOperator) -> None:
        self.id = id
        self.number = number
        self.kind = kind
        self.key = key
        self.live = live
        self.process = live.process
        self.failed = False
        self.outboxes: tuple[Outbox, ...] = ()
        self.direct: tuple[tuple[Stage, int], ...] = ()
        self.queued: tuple[int, ...] = ()
        self.leaves = False
        self.cls = 0
        self.passes: tuple[tuple[tuple[Stage, int], ...], tuple[int, ...]] | None = None
        self.settles = False
        self.tracked = True
        self.rows_in = 0
        self.rows_out = 0
        self.runs = 0
        self.every = 1
        self.due = 1
        self.seconds = 0.0
        self.timed = 0
        self.watermark_seconds = 0.0
        self.width = 0.0

    @property
    def spent(self) -> float:
        """The seconds that it took so far; where not all rows are timed, as much for the others."""
        return self.seconds * self.rows_in / max(self.timed, 1) + self.watermark_seconds

    @property
    def stateless(self) -> bool:
        """Whether watermarks pass through it unchanged."""
        return isinstance(self.live, Stateless)

    def link(
        self, direct: tuple[tuple[Stage, int], ...], queued: tuple[int, ...], readers: Sequence[Stage], highest: int
    ) -> None:
        """Sets where results go: `readers` read the queued edges, `highest` is the highest class among them.

        Consumers are linked before their producers, so that `passes` can be put together from theirs.
        """
        self.direct = direct
        self.queued = queued
        self.cls = highest
        keeps = any(not consumer.stateless for consumer, _ in direct)
        self.leaves = bool(queued) or bool(self.outboxes)
        self.settles = keeps or self.leaves
        # What is newly made and read by operators that make their rows anew shares memory with nothing else.
        others = [*readers, *(consumer for consumer, _ in direct)] if self.outboxes else readers
        self.tracked = any(stage.kind not in _FRESH for stage in (self, *others))
        if not self.stateless:
            self.passes = None
            return
        stages: list[tuple[Stage, int]] = []
        edges = list(queued)
        for consumer, port in direct:
            if consumer.passes is None:
                stages.append((consumer, port))
            else:
                stages += consumer.passes[0]
                edges += consumer.passes[1]
        self.passes = (tuple(stages), tuple(edges))


_FRESH = frozenset({"select", "aggregate", "join", "distinct", "top", "expand", "lookup"})
