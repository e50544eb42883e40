"""The threads of a network: each asks for a grant, runs it, and sleeps when there is none (000 §4.2)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Thread

from headgate.runtime.flow import Flow
from headgate.runtime.gate import Gate
from headgate.runtime.loop import Loop

LINGER = 5.0
"""A thread that had nothing to do for so long (s) ends; the next run makes it anew."""


class Workers:
    """A number of threads that run grants while they are let. `loop` gives the loop as it is now; `after` is called
    by a thread after a grant in which something failed, or if `each` says so after every grant.

    Which unit runs next, and so which partition gets a thread, is the scheduler's business: a worker that is done with
    a grant takes the next one, whichever partition that is of. So threads are changed at the ends of grants, and
    there can be more partitions than threads.
    """

    def __init__(
        self,
        gate: Gate,
        loop: Callable[[], Loop],
        after: Callable[[Flow], None],
        each: bool,
        clock: Callable[[], float],
    ) -> None:
        self._gate = gate
        self._loop = loop
        self._after = after
        self._each = each
        self._clock = clock
        self._until = self._hurry = inf
        self._working = False
        self._wanted = 0
        self._flows: list[Flow] = []
        self._alive = 0
        # Threads that are between the beginning of a grant and the end of what follows from it.
        self._settling = 0
        self._ended = 0.0
        self._failure: BaseException | None = None

    @property
    def working(self) -> bool:
        """Whether the threads are let run grants now."""
        return self._working

    @property
    def seconds(self) -> float:
        """The time spent inside operators by all threads so far."""
        return self._ended + sum(flow.seconds for flow in list(self._flows))

    def resize(self, count: int) -> None:
        """Under the lock: sets how many threads there are. Those too many end with their grant."""
        self._wanted = count
        while self._alive < count:
            flow = Flow(self._clock)
            self._flows.append(flow)
            self._alive += 1
            Thread(target=self._work, args=(flow,), name="headgate", daemon=True).start()
        self._gate.work.notify_all()

    def run(self, until: float, hurry: float = inf) -> None:
        """Lets the threads work until nothing is ready and nothing runs, or the time has come. Not under the lock.

        From `hurry` on it is also over when nothing waits for the highest class.
        """
        gate = self._gate
        with gate.lock:
            self._until, self._hurry, self._working = until, hurry, True
            gate.work.notify_all()
            while self._working and (now := self._clock()) < until:
                gate.done.wait(None if until == inf else until - now)
            self._working = False
            while gate.running or self._settling:
                gate.done.wait()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _may(self) -> bool:
        """Under the lock: whether a thread that is done with a grant takes another at once."""
        if self._hurry < inf and self._clock() >= self._hurry and not self._loop().urgent:
            self._working = False
        return self._working and self._alive <= self._wanted and not self._each

    def _end(self, flow: Flow) -> None:
        self._alive -= 1
        self._flows.remove(flow)
        self._ended += flow.seconds

    def _work(self, flow: Flow) -> None:
        gate = self._gate
        while True:
            with gate.lock:
                if self._alive > self._wanted:
                    self._end(flow)
                    # Another must see whether all is done.
                    gate.work.notify()
                    return
                loop = self._loop()
                begun = loop.begin(flow, self._until) if self._working and not gate.paused else None
                if begun is None:
                    if not gate.running and not self._settling:
                        if not gate.paused:
                            self._working = False
                        gate.done.notify_all()
                    if not gate.sleep(LINGER) and not self._working:
                        self._end(flow)
                        return
                    continue
                self._settling += 1
            try:
                loop.drive(begun, flow, self._until, self._may)
                self._after(flow)
            except BaseException as error:  # not of an operator: the network itself broke, and `run` must say so
                with gate.lock:
                    self._failure, self._working = error, False
                    gate.running.pop(id(flow), None)
            with gate.lock:
                self._settling -= 1
                if not self._settling:
                    gate.done.notify_all()
