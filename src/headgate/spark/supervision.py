"""How a supervisor watches the network's process: its end, memory and threads, the time of functions, its owner."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from headgate.spark.fitness import CLOSED, UNFIT, Fitness
from headgate.spark.flight_record import RunningStage, SharedFlightRecord
from headgate.spark.host import Host
from headgate.spark.host_server import HostServer
from headgate.spark.messages import HostAddress
from headgate.spark.processes import (
    end_with_parent,
    ending_of,
    is_alive,
    is_doomed,
    memory_of_host,
    resident_bytes,
    threads_of,
)
from headgate.spark.supervisor import SupervisorSettings
from headgate.spark.tolls import TollWatch
from headgate.spark.verdicts import LEAST_TOLL, Death, Verdicts

_LOG = logging.getLogger("headgate.host")

CHECK = 0.25
"""Seconds between two checks of the network's process."""

SILENCE = 3600.0
"""Seconds without a request after which a host ends."""

LARGE = 0.25
"""The share of the memory limit from which a state is a reason why the limit is exceeded."""

REMEMBERED = 480
"""Number of checks whose readings of memory and threads are kept: two minutes."""

MOST_THREADS = 5000
"""Threads that a network's process may have. The network itself needs few; the system has some 32,000 for all."""

BROKEN = 70
"""The exit code of a network's process after an internal error."""


# Arrow imports these when it first needs them, which takes most of a second; importing before the fork does it once.
for _module in ("pandas", "pyarrow.acero", "pyarrow.dataset", "pyarrow.parquet"):
    # Arrow does without pandas, which an executor need not have.
    with suppress(ImportError):
        import_module(_module)


def _growth(readings: Sequence[tuple[float, int]], since: float) -> int:
    """By how much what is read has grown since a moment."""
    before = [reading for at, reading in readings if at <= since] or [readings[0][1]]
    return readings[-1][1] - before[-1]


class Supervisor:
    """Watches one network's process at a time, its child.

    `owner_ended`: a descriptor that is ready when the owner has ended, if the system has such.
    """

    def __init__(
        self,
        settings: SupervisorSettings,
        listeners: Sequence[socket.socket],
        address: HostAddress,
        owner_ended: int | None,
    ) -> None:
        self._settings = settings
        self._listeners = listeners
        self._address = address
        self._owner_ended = owner_ended
        self._child = 0
        self._child_ended: int | None = None
        self._control: socket.socket | None = None
        self._record = SharedFlightRecord(settings.record)
        self._verdicts = Verdicts.of(self._record.notes)
        self._kept = b""
        if self._record.left:
            self._died(Death.with_supervisor(), self._record.running())
        self._death: Death | None = None
        # When the child has closed its end of the connection, and what it ran then.
        self._silent: float | None = None
        self._ran: list[RunningStage] = []
        self._unfit = ""
        self._overdue: set[tuple[int, float]] = set()
        self._looked = 0.0
        self._sizes: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._threads: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._memory = settings.memory or memory_of_host()
        self._broken = self._closing = False
        self._serving = False
        self._last_request = time.monotonic()

    def run(self) -> None:
        """Watches until the host has to end."""
        self._fork()
        while not self._over():
            ready = self._wait()
            if self._owner_ended in ready:
                # Its number may be that of another process by now.
                return
            if self._control is not None and self._control.fileno() in ready:
                self._listen_to_child()
            if self._child and self._has_ended():
                self._child_is_gone()
            elif self._child:
                self._inspect()
            elif not self._child and any(listener.fileno() in ready for listener in self._listeners):
                self._fork()

    def end(self) -> None:
        """Ends the network's process and removes the files."""
        if self._child:
            self._kill()
            with suppress(ChildProcessError):
                os.waitpid(self._child, 0)
        for suffix in ("json", "sock"):
            self._settings.file(suffix).unlink(missing_ok=True)
        self._record.remove()

    def _over(self) -> bool:
        if self._closing and not self._child:
            return True
        if not self._serving and time.monotonic() - self._last_request > SILENCE:
            return True
        return not is_alive(self._settings.owner)

    def _wait(self) -> set[int]:
        """Waits until something has happened, at most `CHECK` seconds; returns the descriptors that are ready."""
        poll = select.poll()
        watched = [self._owner_ended, self._child_ended]
        if self._control is not None and self._silent is None:
            watched.append(self._control.fileno())
        if not self._child:
            watched += [listener.fileno() for listener in self._listeners]
        for descriptor in watched:
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(CHECK * 1000)}

    # The child --------------------------------------------------------------------------------------------

    def _fork(self) -> None:
        self._record.clear()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        supervisor = os.getpid()
        self._child = os.fork()
        if not self._child:
            ours.close()
            self._be_the_host(theirs, supervisor)
        theirs.close()
        ours.setblocking(False)
        self._control = ours
        self._child_ended = ending_of(self._child)
        with suppress(OSError):
            os.setpgid(self._child, self._child)

    def _be_the_host(self, control: socket.socket, supervisor: int) -> NoReturn:
        """In the child: serves, and never returns."""
        try:
            os.setpgid(0, 0)
            end_with_parent(supervisor)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

            def report(message: dict[str, Any]) -> None:
                control.send(json.dumps(message).encode())

            def close() -> None:
                report({"close": True})
                os._exit(0)

            def end_unfit(reason: str) -> None:
                _LOG.warning("the process of the network cannot go on: %s; another one takes its place", reason)
                with suppress(OSError):
                    report({"unfit": reason})
                os._exit(UNFIT)

            fitness = Fitness(control.fileno(), end_unfit)

            def end_if_harmed() -> None:
                # If a function that kills the supervisor, or makes the process unfit, had its rows answered, nobody
                # would know that it did, and it would do it again with the next.
                if is_doomed(supervisor):
                    os._exit(UNFIT)
                fitness.check()

            host = Host(self._address, self._record, self._verdicts, report, fitness.check, end_if_harmed)
            server = HostServer(host, self._settings.token, close, fitness.check)
            self._record.raised = fitness.check
            if self._verdicts.measured:
                self._record.watch = TollWatch(
                    self._record.add_toll, fitness, lambda: 2 * server.connections, lambda: self._verdicts.single_thread
                )
            try:
                server.serve(self._listeners)
            except Exception as error:
                fitness.check(error)
                raise
        except BaseException:
            _LOG.exception("the host broke")
            with suppress(OSError):
                control.send(b'{"broken": true}')
        finally:
            os._exit(BROKEN)

    def _listen_to_child(self) -> None:
        """Takes the messages of the child."""
        assert self._control is not None
        while True:
            try:
                data = self._control.recv(1 << 16)
            except (BlockingIOError, ConnectionError):
                return
            if not data:
                if self._silent is None:
                    # It ends, or one of its functions has closed its descriptors.
                    self._silent, self._ran = time.monotonic(), self._record.running()
                return
            message = json.loads(data)
            self._last_request = time.monotonic()
            self._closing |= "close" in message
            self._broken |= "broken" in message
            self._unfit = message.get("unfit", "")
            self._serving = "begin" in message
            if "answered" in message:
                self._verdicts.answered(message["answered"], message["after"])
                self._keep_verdicts()

    def _has_ended(self) -> bool:
        found, self._status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED)
        if found and os.WIFSTOPPED(self._status):
            # By a function, perhaps, which may have returned before its signal took effect.
            os.kill(self._child, signal.SIGCONT)
            return False
        return found == self._child

    def _inspect(self) -> None:
        """Kills the child if a user's function exceeds its time limit, if the process exceeds its limit of memory or
        threads, or if it has lost its descriptors."""
        now, before = time.monotonic(), self._looked
        if now - before < CHECK / 2:
            return
        self._looked = now
        if self._silent is not None and now - self._silent > CHECK:
            self._death = Death.unfit(CLOSED)
            self._kill()
            return
        running = [each for each in self._record.running() if each.stage]
        overdue = {(each.stage, each.since): each for each in running if now - each.since > each.limit}
        # Overdue at two checks in a row: the time for which the machine was suspended does not count.
        twice = [each for key, each in overdue.items() if key in self._overdue and now - before < 4 * CHECK]
        self._overdue = set(overdue)
        if twice:
            limit = min(each.limit for each in twice)
            stages = frozenset(each.stage for each in twice)
            reason = f"ran longer than its limit of {limit:g} s"
            self._death = Death("time", reason, f"a function {reason}", stages)
            self._kill()
            return
        self._threads.append((now, threads_of(self._child)))
        if self._threads[-1][1] > MOST_THREADS:
            reason = f"started more threads than a host may have ({MOST_THREADS:,})"
            guilty = frozenset(each.stage for each in running if _growth(self._threads, each.since) > MOST_THREADS / 10)
            self._death = Death("unfit", reason, f"it {reason}", guilty, least_toll=LEAST_TOLL, inside=True)
            self._kill()
            return
        self._sizes.append((now, resident_bytes(self._child)))
        if self._sizes[-1][1] > self._memory:
            reason = f"used more memory than the host's limit of {self._memory / 1e9:.1f} GB"
            guilty = frozenset(each.stage for each in running if _growth(self._sizes, each.since) > self._memory / 10)
            self._death = Death("memory", reason, f"it {reason}", guilty)
            largest, size = self._record.largest_state
            if not self._record.running() and size > LARGE * self._memory:
                # Nothing runs: what the process keeps is too much.
                reason = f"holds a state of {size / 1e9:.1f} GB, and the host {reason}"
                self._death = Death("memory", reason, self._death.text, frozenset({largest}), function=False)
            self._kill()

    def _child_is_gone(self) -> None:
        self._listen_to_child()
        if not self._broken and not self._closing:
            death = Death.unfit(self._unfit) if self._unfit else self._death or Death.of(self._status)
            self._died(death, self._ran or self._record.running())
        self._death, self._broken, self._unfit, self._silent, self._ran = None, False, "", None, []
        self._overdue.clear()
        self._sizes.clear()
        self._threads.clear()
        # Processes that users' functions started end with it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        assert self._control is not None
        self._control.close()
        if self._child_ended is not None:
            os.close(self._child_ended)
        self._child, self._child_ended, self._control, self._serving = 0, None, None, False

    def _died(self, death: Death, running: Sequence[RunningStage]) -> None:
        """Finds who is to blame. That is known even if this supervisor is killed as well."""
        self._verdicts.died(death, running, self._record.tolls)
        # What ran is judged once.
        self._record.clear()
        self._keep_verdicts()

    def _keep_verdicts(self) -> None:
        state = self._verdicts.state
        if state != self._kept:
            self._record.notes = self._kept = state

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
