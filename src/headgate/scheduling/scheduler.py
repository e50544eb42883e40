"""One policy running on one view: the part of the grant loop that the runtime and the simulator share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.view import View


class Scheduler:
    """Keeps the cut, the units and the selector of a policy, and changes them while grants run.

    An executor's loop, in full:

    1. rows come in on edge *e*: write `view.queues`, then `arrived(e, was_empty)`
    2. `next(now)`: a grant to run, or None
    3. when it is done: write `view.queues`, `finished(…)`, and 1. for every edge it wrote to
    4. at `due`: update the statistics, then `refresh(now)`

    A change of cut is safe at any moment between grants: an edge that gets a queue has it at once; an edge
    that loses its queue keeps it until the queue is empty, and is drained before anything else is granted
    (000 §5.1.3: "all remaining elements in the queue must be entirely processed before"). So no row is lost
    or overtaken. With several threads, a new cut waits until the running grants are finished. So `units`
    may change inside `next`: an executor that keeps state per unit compares `units` before it runs a grant.
    """

    def __init__(self, policy: Policy, view: View, now: float = 0.0, held: frozenset[int] = frozenset()) -> None:
        """`view.queues` may hold rows already, also on edges that the policy wants direct: these are drained first.

        `held` edges are queued whatever the policy wants, and no unit reads them together with others. The executor
        does not report the rows that wait there, so their units are never granted.
        """
        self.policy = policy
        self.view = view
        self.decisions = 0
        self.due = now + policy.refresh_every
        self.units: Units
        self.selector: Selector
        self.watches_growth = False
        self._draining: list[int] = []
        self._pending: Cut | None = None
        self._generation = policy.generation
        self._running = 0
        self._refreshed = now
        self._held = held
        self._target: Cut
        self._change(policy.cut(view))

    def arrived(self, edge: int, was_empty: bool) -> None:
        """Rows were put into the queue of an edge. If it was not empty, the call is needed only when
        `watches_growth`."""
        if was_empty:
            self.selector.arrived(self.units.of_edge[edge])
        elif self.watches_growth:
            self.selector.changed(self.units.of_edge[edge])

    def next(self, now: float) -> Grant | None:
        if self._pending is not None:
            if self._running:
                return None
            self._change(self._pending)
        if self._draining:
            return self._drain(now)
        grant = self.selector.next(now)
        if grant is not None:
            self.decisions += 1
            self._running += 1
        return grant

    def prefer(self, cls: int) -> None:
        """The results of a class are awaited now; see `Selector.prefer`."""
        self.selector.prefer(cls)

    def first(self, edges: Collection[int]) -> None:
        """What waits on these edges, and what becomes of it there, is granted before everything else. Without edges,
        and once nothing waits there, the policy decides again. Called while no grant runs; no effect while queues are
        drained for a new cut."""
        if edges and not self.changing:
            self._draining = self._upstream_last(edges)
        elif not edges and self._draining:
            # Its selector has not seen these grants.
            self._change(self._target)

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._running -= 1
        if self._draining:
            return
        self.selector.finished(unit, now, elapsed, rows_in, rows_out)

    @property
    def changing(self) -> bool:
        """Whether a new cut waits for running grants, or queues are being drained for it."""
        return self._pending is not None or bool(self._draining)

    def refresh(self, now: float) -> None:
        """Let the policy rank again, or cut again, from fresh statistics."""
        self.due = now + self.policy.refresh_every
        oldest = min(self.view.queues.oldest, default=now)
        self.view.performance.staleness += (now - self._refreshed) * max(0.0, now - oldest)
        self._refreshed = now
        if self.policy.refresh(self.view, now):
            cut = self.policy.cut(self.view)
            if cut != self._target or self.policy.generation != self._generation:
                self.change(cut)
                return
        if not self._draining and self._pending is None:
            self.selector.refresh(self.view, now)

    def replace(self, policy: Policy, now: float) -> None:
        """Continue with another policy."""
        self.policy = policy
        self.due = now + policy.refresh_every
        self.change(policy.cut(self.view))

    def change(self, cut: Cut) -> None:
        """Change to another cut as soon as no grant runs; queues that the new cut does not have are drained first."""
        if self._running:
            self._pending = cut
        else:
            self._change(cut)

    def _change(self, cut: Cut) -> None:
        self._pending = None
        self._target = cut
        if self._held:
            together = (group - self._held for group in cut.together)
            kept = frozenset(group for group in together if len(group) > 1)
            cut = replace(cut, queued=cut.queued | self._held, together=kept)
        rows = self.view.queues.rows
        full = frozenset(e for e, waiting in enumerate(rows) if waiting > 0 and e not in cut.queued)
        if full:
            self._draining = self._upstream_last(full)
            self._install(replace(cut, queued=cut.queued | full))
        else:
            self._draining = []
            self._install(cut)

    def _upstream_last(self, chosen: Collection[int]) -> list[int]:
        """Edges in the order in which they are drained, from the end: rows are drained after they go downstream."""
        depth = {o: place for place, o in enumerate(self.view.topology.order)}
        edges = self.view.topology.edges
        return sorted(chosen, key=lambda e: -depth[edges[e].consumer])

    def _drain(self, now: float) -> Grant | None:
        rows = self.view.queues.rows
        if self._running:
            return None
        while self._draining:
            edge = self._draining[-1]
            if rows[edge] > 0:
                self.decisions += 1
                unit = self.units.of_edge[edge]
                self._running += 1
                return Grant(unit)
            self._draining.pop()
        # Checks again: a stream may have refilled its queue meanwhile.
        self._change(self._target)
        return self.next(now)

    def _install(self, cut: Cut) -> None:
        self.units = Units.of(self.view.topology, cut)
        self.selector = self.policy.selector(self.view, self.units)
        self.watches_growth = self.selector.watches_growth
        self._generation = self.policy.generation
