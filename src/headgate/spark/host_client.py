"""Finds or starts the host of a replica on this node, and ends it. Used by tasks and, in local mode, by the driver."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.spark.messages import HostAddress
from headgate.spark.processes import is_alive, memory_of_host, node
from headgate.spark.record_files import remove_left_records
from headgate.spark.wire import ConnectionLost, Wire

CONNECT_TIMEOUT = 5.0
CLOSE_TIMEOUT = 2.0
"""Seconds that a host has to confirm that it ends."""

START_TIMEOUT = 60.0
"""Seconds that a supervisor has to open its sockets; it does so before its slow imports."""

_started: dict[int, subprocess.Popen[bytes]] = {}
_forks: subprocess.Popen[bytes] | None = None
_lock = threading.Lock()


class HostLost(RuntimeError):
    """The host ended or broke the connection; the epoch may be repeated."""


class HostRefused(RuntimeError):
    """The host refused the request or failed; `kind` is "fenced" or "error"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def ensure_host(run: str, replica: int, token: str, owner: int, tcp: bool = False, memory: int = 0) -> HostAddress:
    """The host of a replica on this node; starts it if there is none.

    It ends with the process `owner`. With `tcp` other nodes can reach it. `memory` is its limit in bytes; 0:
    `processes.memory_of_host`. Returns as soon as the host can be connected to, before it has imported everything.
    """
    name = hashlib.sha256(f"{run} {replica} {owner} {token}".encode()).hexdigest()[:16]
    folder = host_folder()
    # All hosts share a few lock files, since a lock file must never be removed.
    with _locked(folder / f"start-{name[0]}.lock"):
        known = _known(folder / f"{name}.json")
        if known is not None and (known.port or not tcp):
            return replace(known, owner=owner)
        _remove_remains(folder)
        return _start(
            {"name": name, "token": token, "owner": owner, "tcp": tcp, "memory": memory, "folder": str(folder)}
        )


def ensure_hosts(run: str, replicas: int, token: str, owner: int) -> list[HostAddress | None]:
    """The hosts of all replicas on this node."""
    memory = memory_of_host(replicas)
    return [ensure_host(run, replica, token, owner, memory=memory) for replica in range(replicas)]


def connect(address: HostAddress) -> Wire:
    """A connection to a host: by its Unix socket on the same node, else by TCP. ConnectionLost if there is none."""
    try:
        if address.node == node():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(address.socket)
            except OSError:
                connection.close()
                raise
        elif address.port:
            connection = socket.create_connection((address.tcp, address.port), CONNECT_TIMEOUT)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            raise ConnectionLost(f"the host is on another node, {address.node}, and has no port")
    except ConnectionLost:
        raise
    except OSError as error:
        raise ConnectionLost(f"the host cannot be reached: {error}") from error
    return Wire(connection)


def last_death(address: HostAddress, token: str) -> str:
    """How the last process of a host ended; empty if it is not known."""
    try:
        wire = connect(address)
        try:
            wire.timeout(CLOSE_TIMEOUT)
            wire.send({"kind": "why", "token": token})
            return str(wire.receive()[0].get("message", ""))
        finally:
            wire.close()
    except OSError:
        return ""


def close_host(address: HostAddress, token: str) -> bool:
    """Ends a host, whatever it is doing; returns whether it is known to have ended.

    A host on this node that does not answer is killed. One on another node ends with its executor.
    """
    try:
        wire = connect(address)
        try:
            wire.timeout(CLOSE_TIMEOUT)
            wire.send({"kind": "close", "token": token})
            closed = bool(wire.receive()[0]["kind"] == "closed")
        finally:
            wire.close()
    except OSError:
        closed = False
    if address.node != node():
        return closed
    if not closed:
        _kill(address)
    _reap(address.pid)
    return True


def close_hosts(hosts: Iterable[HostAddress], token: str) -> None:
    """Ends hosts, all at the same time: one that does not answer takes seconds."""
    known = tuple(hosts)
    if known:
        with ThreadPoolExecutor(len(known), "headgate-end") as threads:
            list(threads.map(lambda host: close_host(host, token), known))


def close_when_started(starting: Future[list[HostAddress | None]], token: str) -> None:
    """Ends hosts that may still be being started, unless they have ended; does not wait for it."""

    def close(started: Future[list[HostAddress | None]]) -> None:
        if not started.cancelled() and started.exception() is None:
            hosts = [host for host in started.result() if host is not None]
            threading.Thread(target=close_hosts, args=(hosts, token), name="headgate-end", daemon=True).start()

    starting.add_done_callback(close)


def host_folder() -> Path:
    """The folder of sockets and addresses, which only this user can read. Its path is short: the path of a Unix socket
    has at most about 100 characters."""
    folder = Path(f"/tmp/headgate-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} belongs to another user or can be read by others; remove it")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock among all processes of this node."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_remains(folder: Path) -> None:
    """Removes the files of supervisors that were killed."""
    for path in folder.glob("*.json"):
        if _known(path) is None:
            path.with_suffix(".sock").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    remove_left_records(folder)


def _known(path: Path) -> HostAddress | None:
    """The address in a file, if its supervisor runs."""
    try:
        address = HostAddress(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return address if address.node == node() and _is_supervisor(address.pid) else None


def _is_supervisor(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        # No such process, or no /proc on this system.
        return is_alive(pid)
    except OSError:
        return False
    return b"headgate.spark.supervisor" in command and is_alive(pid)


def prepare_hosts(*loaders: str) -> None:
    """Starts the process that forks the supervisors of this driver's hosts, unless there is one.

    It does their imports while Spark starts, and ends with this process. `loaders`: functions ("module:function") that
    import the modules of other layers that hosts need.
    """
    global _forks
    with _lock:
        if _forks is None or _forks.poll() is not None:
            _forks = _supervisor_process("forks", *loaders)


def _supervisor_process(*arguments: str) -> subprocess.Popen[bytes]:
    # In its environment, not only in its settings: the process needs the path to import this package.
    path = os.pathsep.join(_absolute_path())
    return subprocess.Popen(
        [sys.executable, "-m", "headgate.spark.supervisor", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        process_group=0,
    )


def _absolute_path() -> list[str]:
    return [os.path.abspath(each) for each in sys.path]


def _start(settings: dict[str, Any]) -> HostAddress:
    """Starts a supervisor: by a fork if `prepare_hosts` was called, else as a process with its own imports."""
    settings = {
        **settings,
        "path": _absolute_path(),
        "python_path": os.environ.get("PYTHONPATH"),
        "environment": dict(os.environ),
        "working_folder": os.getcwd(),
    }
    line = json.dumps(settings).encode()
    with _lock:
        forks = _forks if settings["owner"] == os.getpid() else None
        if forks is not None:
            with suppress(HostLost, OSError, ValueError):
                return _asked(forks, line + b"\n", end=False)
    process = _supervisor_process()
    address = _asked(process, line, end=True)
    with _lock:
        _started[address.pid] = process
    return address


def _asked(process: subprocess.Popen[bytes], settings: bytes, end: bool) -> HostAddress:
    """Sends settings to a process that is a supervisor or forks one; returns the supervisor's address.

    `end`: nothing else is sent, and its input is closed.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    waiting = threading.Timer(START_TIMEOUT, process.kill)
    waiting.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(settings)
            process.stdin.flush()
            if end:
                process.stdin.close()
        line = process.stdout.readline()
        if end:
            process.stdout.close()
    finally:
        waiting.cancel()
    if not line:
        raise HostLost(f"the host's supervisor ended with code {process.wait()}")
    return HostAddress(**json.loads(line))


def _kill(address: HostAddress) -> None:
    """Kills a supervisor; its network's process ends with it."""
    if _is_supervisor(address.pid):
        with suppress(ProcessLookupError):
            os.kill(address.pid, 9)


def _reap(pid: int) -> None:
    """Waits for a supervisor, and removes it from the process table if it is a child of this process."""
    with _lock:
        process = _started.pop(pid, None)
    if process is None:
        # Another process started it, or forked it.
        until = time.monotonic() + CLOSE_TIMEOUT
        while is_alive(pid) and time.monotonic() < until:
            time.sleep(0.005)
        if _is_supervisor(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
    else:
        try:
            process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
