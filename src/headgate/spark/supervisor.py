"""The parent of a network's process: opens the sockets, forks the process, watches it, and forks another if it ends.

Started by `host_client.ensure_host`. It has one thread and imports everything before it forks, so that a new process is
there within milliseconds. It ends, and the network's process with it, when its owner ends (the executor, in local mode
the driver), when it is asked to, or when nobody has asked for an epoch for an hour.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from headgate.spark.host_client import is_alive, node
from headgate.spark.messages import HostAddress

_LOG = logging.getLogger("headgate.host")

CHECK = 0.25
"""Seconds between two looks at the network's process."""

SILENCE = 3600.0
"""Seconds without a request after which a host ends."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class SupervisorSettings:
    """What the starter hands over on standard input, as JSON."""

    name: str
    folder: str
    token: str
    owner: int
    tcp: bool
    memory: int | None
    path: list[str]
    python_path: str | None

    def file(self, suffix: str) -> Path:
        return Path(self.folder) / f"{self.name}.{suffix}"


class Supervisor:
    """Watches one network's process at a time, its child."""

    def __init__(self, settings: SupervisorSettings) -> None:
        self._settings = settings
        self._listeners = _listen(settings)
        self._address = _address(settings, self._listeners)
        self._owner = _watch(settings.owner)
        self._child = 0
        self._child_ended: int | None = None
        self._control: socket.socket | None = None
        self._closing = False
        self._serving = False
        self._last_request = time.monotonic()

    def announce(self) -> None:
        """Tells the starter, and later ones, where the host is."""
        text = json.dumps(asdict(self._address))
        unfinished = self._settings.file("tmp")
        unfinished.write_text(text)
        unfinished.rename(self._settings.file("json"))
        os.write(1, f"{text}\n".encode())
        # The starter waits for the end of this stream; what users' functions print goes where errors go.
        os.dup2(2, 1)

    def run(self) -> None:
        """Watches until the host has to end."""
        self._fork()
        while not self._over():
            ready = self._wait()
            if self._control is not None and self._control.fileno() in ready:
                self._listen_to_child()
            if self._child and self._has_ended():
                self._child_is_gone()
            elif not self._child and any(listener.fileno() in ready for listener in self._listeners):
                self._fork()

    def end(self) -> None:
        """Ends the network's process and removes the files."""
        if self._child:
            self._kill()
            with suppress(ChildProcessError):
                os.waitpid(self._child, 0)
        for suffix in ("json", "sock", "flight"):
            self._settings.file(suffix).unlink(missing_ok=True)

    def _over(self) -> bool:
        if self._closing and not self._child:
            return True
        if not self._serving and time.monotonic() - self._last_request > SILENCE:
            return True
        return not is_alive(self._settings.owner)

    def _wait(self) -> set[int]:
        """Waits until something has happened, at most `CHECK` seconds; returns the descriptors that are ready."""
        poll = select.poll()
        watched = [self._owner, self._child_ended, None if self._control is None else self._control.fileno()]
        if not self._child:
            watched += [listener.fileno() for listener in self._listeners]
        for descriptor in watched:
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(CHECK * 1000)}

    # The child --------------------------------------------------------------------------------------------

    def _fork(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        supervisor = os.getpid()
        self._child = os.fork()
        if not self._child:
            ours.close()
            self._be_the_host(theirs, supervisor)
        theirs.close()
        ours.setblocking(False)
        self._control = ours
        self._child_ended = _watch(self._child)
        with suppress(OSError):
            os.setpgid(self._child, self._child)

    def _be_the_host(self, control: socket.socket, supervisor: int) -> NoReturn:
        """In the child: serves, and never returns."""
        code = 70
        try:
            os.setpgid(0, 0)
            _end_with_parent(supervisor)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            from headgate.spark.host import Host, HostServer

            def report(message: dict[str, Any]) -> None:
                control.send(json.dumps(message).encode())

            def close() -> None:
                report({"close": True})
                os._exit(0)

            host = Host(self._address, report=report)
            HostServer(host, self._settings.token, close).serve(self._listeners)
        except BaseException:
            _LOG.exception("the host broke")
        finally:
            os._exit(code)

    def _listen_to_child(self) -> None:
        """Takes the messages of the child."""
        assert self._control is not None
        while True:
            try:
                data = self._control.recv(1 << 16)
            except (BlockingIOError, ConnectionError):
                return
            if not data:
                return
            message = json.loads(data)
            self._last_request = time.monotonic()
            if "close" in message:
                self._closing = True
            self._serving = "begin" in message

    def _has_ended(self) -> bool:
        found, self._status = os.waitpid(self._child, os.WNOHANG)
        return found == self._child

    def _child_is_gone(self) -> None:
        self._listen_to_child()
        # What users' functions started ends with it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        assert self._control is not None
        self._control.close()
        if self._child_ended is not None:
            os.close(self._child_ended)
        self._child, self._child_ended, self._control, self._serving = 0, None, None, False

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)


def _listen(settings: SupervisorSettings) -> list[socket.socket]:
    path = settings.file("sock")
    path.unlink(missing_ok=True)
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    local.bind(str(path))
    listeners = [local]
    if settings.tcp:
        remote = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        remote.bind((_node_address(), 0))
        listeners.append(remote)
    for listener in listeners:
        listener.listen(64)
    return listeners


def _address(settings: SupervisorSettings, listeners: list[socket.socket]) -> HostAddress:
    tcp, port = listeners[1].getsockname()[:2] if settings.tcp else ("", 0)
    return HostAddress(node(), str(settings.file("sock")), os.getpid(), tcp, port)


def _node_address() -> str:
    """The address of this node for other nodes: the one that Spark uses, if it is set."""
    chosen = os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _watch(pid: int) -> int | None:
    """A descriptor that is ready when a process has ended; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _end_with_parent(parent: int) -> None:
    """This process is killed when its parent ends, even if it holds Python's lock for ever."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main() -> None:
    """Runs a supervisor with the settings on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = SupervisorSettings(**json.loads(sys.stdin.buffer.read()))
    sys.path[:] = settings.path
    if settings.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = settings.python_path
    supervisor = Supervisor(settings)
    supervisor.announce()
    import headgate.spark.host  # noqa: F401 - before it forks

    gc.freeze()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        supervisor.run()
    finally:
        supervisor.end()


def _terminated(*_: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
