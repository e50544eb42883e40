"""The driver's loop: one thread that owns the epochs and the lanes of an engine and takes messages from all others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeVar

from headgate.spark.epoch_failures import EpochFailures, LaneError
from headgate.spark.epochs import CatalystError, Epochs, EpochsClosed
from headgate.spark.lane import Lane, LaneBatch, LaneClosed
from headgate.spark.lanes import Lanes
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.turns import LaneTurns

T = TypeVar("T")

_BACKLOG_EVERY = 0.1
"""Seconds after an epoch until the results of rows that were left waiting are fetched, unless a lane brings rows."""

_METRICS_AFTER = 0.5
"""Seconds of silence after which metrics are fetched that the last epochs did not report."""

_GIVE_WAY = 0.2
"""The longest time (s) that an epoch without new rows waits for a lane that is about to deliver rows."""

_GRACE, _CANCEL = 3.0, 2.0
"""Seconds from the request to stop until the job of the running epoch is cancelled, and then until the loop is left
behind."""


class EngineStopping(RuntimeError):
    """A change came while the engine was being stopped."""


@dataclass(frozen=True)
class LaneEnded:
    """A lane has ended by itself."""

    lane: Lane
    error: Exception | None


@dataclass(frozen=True, eq=False)
class Change:
    """Something to do between two epochs; `done` gets its result, and is cancelled if the engine stops before it is
    begun. Its error is raised if nobody `wanted` it."""

    action: Callable[[], Any]
    wanted: bool = True
    done: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True)
class Stop:
    """No more epochs."""


Message = LaneBatch | LaneEnded | Change | Stop


class Driver:
    """Runs the epochs of an engine on a thread of its own, from `start` until `stop`, the end of the rows or a failure.

    Messages are taken in order: a lane has rows, a lane has ended, the user changed something, stop. Of several lanes
    that have rows, the one whose turn it is comes first (see `LaneTurns`). When there is no message, rows that were
    left waiting get epochs of their own, and so do watermarks that replicas do not know yet.
    Lanes and epochs are used by this thread only. `over` is called at the end of the loop. `pause` says how long (s)
    epochs without new rows should wait.
    """

    def __init__(
        self,
        epochs: Epochs,
        make_lanes: Callable[[Driver], Lanes],
        checkpoint: str,
        over: Callable[[], None],
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._epochs = epochs
        self._report_over = over
        self._pause = pause
        self._inbox: queue.Queue[Message] = queue.Queue()
        # Messages taken from the inbox, in order.
        self._received: list[Message] = []
        self._turns = LaneTurns()
        self._lanes = make_lanes(self)
        self._failures = EpochFailures(checkpoint)
        # Under the lock: whether the loop is to end, since when, and the changes that threads wait for.
        self._lock = threading.Lock()
        self._stopping = False
        self._stopped_at = 0.0
        self._awaited: set[Change] = set()
        self._once = False
        self._idle_since = time.monotonic()
        self._over = threading.Event()
        self._careful: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="headgate-driver", daemon=True)
        self.failure: Exception | None = None
        """Why the loop ended without `stop`, or None."""

    # From any thread ------------------------------------------------------------------------------------------

    def start(self, *, once: bool) -> None:
        """Starts the loop and the lanes. With `once`, the loop ends when all rows available now are processed and every
        stream has ended."""
        self._once = once
        self._thread.start()
        self.change(lambda: self._lanes.start(self, once=once))

    def change(self, action: Callable[[], T]) -> T:
        """Does something between two epochs, and returns its result or raises its error.

        Before `start` and after the end of the loop it is done at once. EngineStopping if the loop is ending: a running
        epoch may take long, and a change must not wait for it then.
        """
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return action()
        message = Change(action)
        with self._lock:
            if self._stopping:
                raise EngineStopping("the engine is stopping; the change has no effect")
            self._awaited.add(message)
        self._inbox.put(message)
        try:
            while True:
                try:
                    found: T = message.done.result(timeout=1.0)
                    return found
                except CancelledError:
                    raise EngineStopping("the engine is stopping; the change has no effect") from None
                except TimeoutError:
                    if message.done.done():
                        # It came meanwhile, or the action itself raised this error.
                        ended: T = message.done.result()
                        return ended
                    if self._over.is_set() and message.done.cancel():
                        return action()
        finally:
            with self._lock:
                self._awaited.discard(message)

    def replan(self, make: Callable[[Lanes], Plan]) -> Plan:
        """Changes the plan; `make` plans the lanes. Lanes that must bring other columns are restarted first.

        If a lane cannot be opened or started, or state cannot be moved to its new replicas, everything stays as it was.
        """

        def apply() -> Plan:
            before, lanes = self._planned, self._lanes.saved()
            try:
                plan = self._planned = make(self._lanes)
                self._lanes.apply(self)
                self._epochs.plan = plan
            except Exception:
                self._planned = before
                self._lanes.restore(lanes)
                if before is not None:
                    self._lanes.apply(self)
                raise
            return plan

        return self.change(apply)

    def submit(self, action: Callable[[], object]) -> None:
        """Does something between two epochs, and does not wait for it. An error ends the loop."""
        self._inbox.put(Change(action, wanted=False))

    def deliver(self, batch: LaneBatch) -> None:
        """A lane has rows."""
        self._inbox.put(batch)

    def ended(self, lane: Lane, error: Exception | None) -> None:
        """A lane has ended."""
        self._inbox.put(LaneEnded(lane, error))

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end of the loop; True if it has ended."""
        return self._over.wait(seconds)

    def request_stop(self) -> None:
        """Makes the loop end after the running epoch, and returns at once: changes that wait for the loop raise
        EngineStopping, and so do later ones."""
        with self._lock:
            if self._stopping:
                return
            self._stopping, self._stopped_at = True, time.monotonic()
            awaited = tuple(self._awaited)
        for change in awaited:
            change.done.cancel()
        self._inbox.put(Stop())

    def stop(self) -> None:
        """Ends the loop after the running epoch, or in the middle of it if it takes long."""
        self.request_stop()
        if not self._thread.is_alive():
            self._lanes.stop()
            return
        if not self._over.wait(max(0.0, self._stopped_at + _GRACE - time.monotonic())):
            self._epochs.close()
            self._over.wait(_CANCEL)

    # On the loop's thread -------------------------------------------------------------------------------------

    _planned: Plan | None = None

    def prepare(self, packed: Any, packing: Packing) -> Any:
        """See `Preparation`."""
        return self._epochs.prepare(packed, packing, self._plan)

    def conditions(self, packed: Any, packing: Packing) -> object:
        """See `Preparation`."""
        return self._epochs.conditions(packed, packing, self._plan)

    def refuse(self, lane: Lane) -> None:
        """Refuses the batches of a closed lane that wait for their turn."""
        self._empty_inbox()
        kept: list[Message] = []
        for message in self._received:
            if isinstance(message, LaneBatch) and message.lane is lane:
                message.done.set_exception(LaneClosed(f"lane {lane.name} is being stopped"))
            else:
                kept.append(message)
        self._received = kept

    @property
    def _plan(self) -> Plan:
        assert self._planned is not None
        return self._planned

    def _work(self) -> None:
        try:
            while not self._stopping:
                self._handle(self._next())
                if self._once and self._lanes.all_ended:
                    self._epochs.run_backlog(finish=True)
                    break
            if self._epochs.change_pending and not self._epochs.commit.complete:
                # Nobody waits for a change that no epoch has seen, but a restart must know it.
                self._epochs.run_backlog()
        except EpochsClosed:
            pass
        except Exception as error:
            self.failure = error
        try:
            self._lanes.stop()
        except Exception as error:
            self.failure = self.failure or error
        self._over.set()
        self._refuse_all()
        self._report_over()

    def _empty_inbox(self) -> None:
        while True:
            try:
                self._received.append(self._inbox.get_nowait())
            except queue.Empty:
                return

    def _receive(self, seconds: float | None = None) -> Message:
        """The next message; raises `queue.Empty` after so many seconds."""
        self._empty_inbox()
        if not self._received:
            self._received.append(self._inbox.get(timeout=seconds))
        batches = takewhile(lambda message: isinstance(message, LaneBatch), self._received)
        lanes = [batch.lane.name for batch in batches if isinstance(batch, LaneBatch)]
        turn = lanes.index(self._turns.next(self._lanes.weights(lanes))) if lanes else 0
        return self._received.pop(turn)

    def _next(self) -> Message | None:
        """The next message; None if an epoch without new rows is due."""
        if self._once:
            return self._receive()
        if not self._epochs.backlog_due:
            try:
                return self._receive(self._epochs.idle_wait)
            except queue.Empty:
                return None
        if self._epochs.follow_up or self._epochs.change_pending:
            self._empty_inbox()
            if not self._received:
                return None
        due = self._idle_since + (max(_BACKLOG_EVERY, self._pause()) if self._epochs.waiting else _METRICS_AFTER)
        latest = due + _GIVE_WAY
        while True:
            try:
                return self._receive(max(0.0, due - time.monotonic()))
            except queue.Empty:
                # New rows would have to wait until an epoch without rows ends.
                if time.monotonic() >= latest or not self._lanes.delivering:
                    return None
                due = min(latest, time.monotonic() + 0.02)

    def _handle(self, message: Message | None) -> None:
        if message is None:
            self._epochs.run_backlog()
            self._idle_since = time.monotonic()
        elif isinstance(message, LaneBatch):
            began = time.monotonic()
            self._run(message)
            self._idle_since = time.monotonic()
            lane = message.lane.name
            self._turns.used(lane, self._idle_since - began, self._lanes.weights([lane]))
        elif isinstance(message, LaneEnded):
            self._lane_ended(message)
        elif isinstance(message, Change) and message.done.set_running_or_notify_cancel():
            try:
                message.done.set_result(message.action())
            except BaseException as error:
                message.done.set_exception(error)
                if not message.wanted:
                    raise

    def _run(self, batch: LaneBatch) -> None:
        """An epoch for a batch. An error ends its lane; `_lane_ended` decides how it goes on."""
        try:
            self._epochs.run_batch(batch)
        except Exception as error:
            batch.done.set_exception(error)
            if isinstance(error, CatalystError):
                self._careful.add(batch.lane.name)
                return
            raise
        batch.done.set_result(None)
        self._failures.succeeded()
        if batch.lane.careful:
            self._careful.discard(batch.lane.name)
            self._lanes.restart(batch.lane.name, self, careful=False)
        elif self._epochs.preparation_changed:
            self._epochs.preparation_changed = False
            self._lanes.apply(self)

    def _lane_ended(self, message: LaneEnded) -> None:
        lane, error = message.lane, message.error
        if not self._lanes.running(lane):
            return
        if error is None:
            if not self._once:
                raise LaneError(
                    f"lane {lane.name} was stopped from outside: by another engine on the same checkpoint in this Spark"
                    " session, or with the session; nothing is lost"
                )
            self._lanes.end(lane)
            return
        careful = lane.name in self._careful
        if not careful and not lane.careful and not self._failures.transient(error):
            # Spark may have failed while it planned the batch, on the expression of a query.
            careful = bool(self._plan.packings[lane.key].extra)
        if not careful or lane.careful:
            final = self._failures.final(error)
            if final is not None:
                raise final
        self._lanes.restart(lane.name, self, careful=careful)

    def _refuse_all(self) -> None:
        self._empty_inbox()
        for message in self._received:
            if isinstance(message, LaneBatch):
                message.done.set_exception(LaneClosed("the engine has stopped"))
            elif isinstance(message, Change):
                message.done.cancel()
        self._received.clear()
