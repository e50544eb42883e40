"""The process of a network: does the epochs that its connections bring, and goes on granting units between them.

The host keeps the network from epoch to epoch; it restores the network from a commit if the request does not continue
where the network is.

Three kinds of threads: the main thread accepts connections (`host_server.py`); a thread for each connection serves it,
for one epoch at a time; the background thread (`background.py`) runs the network while no epoch is cut. At most one
thread calls `Network.run` at any time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.runtime.flight import FlightRecord, Unrecorded
from headgate.spark.background import Background
from headgate.spark.messages import EpochAnswer, EpochRequest, HostAddress
from headgate.spark.resident import ResidentNetwork
from headgate.spark.verdicts import Verdicts
from headgate.spark.wire import ConnectionLost

SOON = 0.02
"""Seconds after which an epoch with new rows ends once the highest class has its results: these are published with its
commit, and the background thread goes on with the rest."""

FIRST = 0.2
"""Seconds that an epoch may take longer so that queries which were added, of any class, answer with the first epoch
that brings rows for them."""


class Refused(Exception):
    """The host does not do what a request asks; `kind` is that of the message that says so."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class BegunEpoch:
    """An epoch whose rows are being read: its network, and what its answer needs besides."""

    attempt: str
    resident: ResidentNetwork
    restored: bool
    behind: bool
    began: float
    ready: float
    taken: int = 0


class RequestTurn:
    """One request's right to use the network, until it is answered, it fails, or a later request ends it.

    `rows` is the lock under which its tasks begin the epoch and push their rows, with `epoch` and `delivered`, the
    number of tasks whose rows are all there. Everything else belongs to the lock of the host.
    """

    def __init__(self, request: EpochRequest) -> None:
        self.request = request
        self.rows = threading.Lock()
        self.epoch: BegunEpoch | None = None
        self.delivered = 0
        self.joined: set[int] = set()
        self.connected: dict[int, Callable[[], None]] = {}
        self.over = False
        self.answered = False
        self.error: Exception | None = None

    def end(self) -> None:
        """The request is not wanted any more."""
        self.over = True
        for end in self.connected.values():
            end()

    def check(self) -> None:
        """Raises if the request has failed or is not wanted any more."""
        if self.over:
            raise Refused("fenced", "a later request has taken over")
        if self.error is not None:
            raise self.error


class Host:
    """Keeps the network of one replica and does its epochs. Methods may be called from any thread.

    `address` is part of every answer. `verdicts` are those on earlier processes of this host. `report` is called with
    what the supervisor should know: {"begin": epoch}, and then {"answered": epoch, "after": last committed epoch} or
    {"failed": epoch}. `check` is called with errors of the host's own work that nobody else sees; it does not return if
    the process cannot go on. `before_answer` is called when an answer is ready; it does not return if the answer must
    not be sent.
    """

    def __init__(
        self,
        address: HostAddress,
        record: FlightRecord | None = None,
        verdicts: Verdicts | None = None,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
        check: Callable[[Exception], None] = lambda _: None,
        before_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._address = address
        self._record = record or Unrecorded()
        self._report = report
        self._check_process = check
        self._before_answer = before_answer
        # A user's function may set another one, and then nobody could read the host's files.
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._verdicts = verdicts or Verdicts()
        self._changed = threading.Condition()
        self._latest: RequestTurn | None = None
        self._turn: RequestTurn | None = None
        self._background = Background()
        # What follows belongs to the thread that has the turn.
        self._resident: ResidentNetwork | None = None
        self._at: tuple[str, str, int, int] | None = None
        self._snapshot = ""

    def epoch(
        self,
        request: EpochRequest,
        task: str,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        send: Callable[[EpochAnswer], None],
        end: Callable[[], None] = lambda: None,
        number: int = 0,
        delivered: Callable[[], None] = lambda: None,
    ) -> None:
        """Reads the rows of a task attempt. If all tasks of the request have brought theirs, does the epoch and sends
        the answer; else calls `delivered`. `number` is that of the task, below `request.tasks`.

        If anything fails, also `send`, the request fails for all its tasks, and the network is restored for the next
        one. Refused if a request with a higher fence has come, before or meanwhile; `end` is then called from another
        thread, to end `batches`.
        """
        turn = self._take_turn(request, number, end)
        try:
            if self._read(turn, task, batches):
                self._finish(turn, send)
            else:
                delivered()
        except BaseException as error:
            with self._changed:
                if turn.error is None:
                    lost = isinstance(error, ConnectionLost) or not isinstance(error, Exception)
                    turn.error = Refused("lost", "the rows of another task were lost") if lost else error  # type: ignore[assignment]
            if turn.over and not isinstance(error, Refused):
                raise Refused("fenced", "a later request has taken over") from error
            raise
        finally:
            self._leave(turn, number)

    def _take_turn(self, request: EpochRequest, number: int, end: Callable[[], None]) -> RequestTurn:
        """Joins the other tasks of the request, or ends the request that is being served, if any, and waits for it."""
        with self._changed:
            self._check(request)
            mine = self._latest
            if mine is None or mine.request.fence != request.fence or (number in mine.joined and request.tasks == 1):
                mine = self._latest = RequestTurn(request)
            if number in mine.joined:
                raise Refused("lost", "the rows of a task came twice")
            mine.joined.add(number)
            while self._turn is not None and self._turn is not mine:
                self._turn.end()
                if not self._turn.connected:
                    break
                self._changed.wait()
                self._check(request)
            mine.check()
            self._turn = mine
            mine.connected[number] = end
        return mine

    def _leave(self, turn: RequestTurn, number: int) -> None:
        """A task of the request is no longer served."""
        with self._changed:
            alone = len(turn.connected) == 1
            # The next request may come as soon as the answer is sent, and end a turn that has done its work.
            failed = not turn.answered and (turn.over or turn.error is not None)
        if alone and failed:
            self._forget()
        with self._changed:
            del turn.connected[number]
            if not turn.connected and (failed or turn.answered):
                self._turn = None
                if failed:
                    self._report({"failed": turn.request.epoch})
            self._changed.notify_all()

    def close(self) -> None:
        """Frees the network and ends the threads. Called when no task is served; no request may follow.

        A process that serves a host ends without it.
        """
        self._forget()
        self._background.close()

    def check(self, request: EpochRequest) -> None:
        """Refused if a request with a higher fence has come before."""
        with self._changed:
            self._check(request)

    def _check(self, request: EpochRequest) -> None:
        if self._latest is not None and request.fence < self._latest.request.fence:
            raise Refused("fenced", f"the request {request.fence} came after {self._latest.request.fence}")

    def _read(self, turn: RequestTurn, task: str, batches: Callable[[], Iterator[pa.RecordBatch]]) -> bool:
        """Pushes the rows of a task into the network; True if these were the last rows of the epoch."""
        request = turn.request
        with turn.rows:
            turn.check()
            if turn.epoch is None:
                turn.epoch = self._begin(request, task)
            epoch = turn.epoch
        for batch in batches():
            if request.packing is not None:
                with turn.rows:
                    turn.check()
                    epoch.taken += epoch.resident.feed(request.packing, batch, request.arrived)
                self._background.wake()
        with turn.rows:
            turn.delivered += 1
            return turn.delivered == request.tasks

    def _begin(self, request: EpochRequest, task: str) -> BegunEpoch:
        """Brings the network to where the request continues from, and begins its epoch."""
        began = time.perf_counter()
        self._report({"begin": request.epoch})
        # Replicas write files of their own.
        attempt = f"{request.attempt}-{request.replica}-{task}"
        resident, restored = self._network(request)
        # Until this epoch is answered the network is ahead of every commit.
        self._at = None
        network = resident.network
        epoch = BegunEpoch(attempt, resident, restored, network.waiting > 0, began, time.perf_counter())
        resident.begin(request.epoch, attempt)
        for failure in request.expression_failures:
            network.quarantine(failure.query, failure.operator, failure.detail, failure.error)
        for failure in request.failed_elsewhere:
            resident.fail_as_elsewhere(failure)
        if request.event_times is not None:
            resident.advance(request.event_times)
        if request.idle:
            resident.catch_up(request.idle)
        if request.reached:
            resident.receive(request.exchange, request.reached)
        if request.packing is not None:
            self._background.run(resident)
        return epoch

    def _finish(self, turn: RequestTurn, send: Callable[[EpochAnswer], None]) -> None:
        """All rows have been read: runs the network, cuts the epoch, and sends the answer."""
        request, epoch = turn.request, turn.epoch
        assert epoch is not None
        resident, network = epoch.resident, epoch.resident.network
        if request.packing is not None:
            resident.fed_all(request.arrived)
            self._background.wake()
            self._background.stop()
        if request.finish:
            resident.finish()
        fed = time.perf_counter()
        soon = None if request.packing is None or request.finish else SOON
        # A backlog that has outlasted an epoch outlasts this one: the results that can be had now are not kept waiting.
        serving = resident.fed if epoch.behind and soon is not None else ()
        report = network.run(request.budget, soon, lambda: turn.over, serving, awaited=resident.awaited, patience=FIRST)
        turn.check()
        ran = time.perf_counter()
        resident.fail_together()
        reached = network.reached
        os.umask(self._umask)
        cut = resident.cut(request.epoch, epoch.attempt, request.withheld)
        snapshot, files, delivered = resident.save(cut)
        exchange = resident.send(cut)
        saved = time.perf_counter()
        grants, seconds = self._background.count()
        self._before_answer()
        send(
            EpochAnswer(
                replica=request.replica,
                epoch=request.epoch,
                attempt=request.attempt,
                host=self._address,
                restored=epoch.restored,
                snapshot=snapshot,
                files=(*files, *dict.fromkeys(each.place.file for each in exchange)),
                results=delivered.results,
                newest=delivered.newest,
                unwritten=delivered.unwritten,
                written=delivered.written,
                rows=delivered.rows,
                malformed=delivered.malformed,
                arrivals=cut.arrivals,
                failures=tuple(cut.manifest["failures"]),
                failed=cut.failed,
                taken=epoch.taken,
                waiting=report.waiting,
                grants=grants + report.grants,
                selected=resident.selected,
                event_times=resident.event_times,
                arrived=resident.arrived,
                exchange=exchange,
                reached=reached,
                once=cut.once,
                seconds={
                    "restore": epoch.ready - epoch.began,
                    "read": fed - epoch.ready,
                    "run": ran - fed,
                    "operators": seconds + report.operator_seconds,
                    "snapshot": saved - ran,
                },
                metrics=network.metrics() if request.detailed else None,
                key_rows=resident.key_rows if request.detailed else {},
                inline=delivered.inline,
            )
        )
        self._at = (request.run, request.checkpoint, request.fence[0], request.epoch)
        self._snapshot = snapshot.file
        self._verdicts.answered(request.epoch, request.after)
        network.single_thread = False
        self._report({"answered": request.epoch, "after": request.after})
        # Work between two epochs belongs to the next one.
        resident.begin(request.epoch + 1, f"{epoch.attempt}-next")
        if report.waiting:
            self._background.run(resident)
        turn.answered = True

    def _network(self, request: EpochRequest) -> tuple[ResidentNetwork, bool]:
        """The network at the state that the request continues from, and whether it had to be restored."""
        try:
            self._background.stop()
        except Exception as error:
            self._check_process(error)
            self._forget()
        wanted = (request.run, request.checkpoint, request.fence[0], request.after)
        same = self._at == wanted and request.continues in ("", self._snapshot)
        if self._resident is not None and same:
            self._resident.follow(request.plan)
            return self._resident, False
        self._forget()
        self._resident = ResidentNetwork(request, self._record, self._verdicts.pending)
        self._resident.network.single_thread = self._verdicts.single_thread
        return self._resident, True

    def _forget(self) -> None:
        """The next request gets a new network."""
        with suppress(Exception):
            self._background.stop()
        if self._resident is not None:
            self._resident.close()
        self._resident = self._at = None

    @property
    def last_death(self) -> str:
        """How the last process of this host ended; empty if this is the first."""
        return self._verdicts.last_death

    @property
    def waiting(self) -> int:
        """Rows (and watermarks) that wait in the queues of the network."""
        resident = self._resident
        return 0 if resident is None else resident.network.waiting
