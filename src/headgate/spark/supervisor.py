"""The parent of a network's process: opens the sockets, forks the process, watches it, and forks another if it ends.

Started by `host_client.ensure_host`. It has one thread and imports everything before it forks, so that a new process is
there within milliseconds. It ends, and the network's process with it, when its owner ends (the executor, in local mode
the driver), when it is asked to, or when nobody has asked for an epoch for an hour.

With the argument `forks` it is the parent of supervisors instead: it imports everything once and forks a supervisor for
each line of settings, so that the second engine of a driver need not wait for the imports, and replicas share memory.
The functions that follow `forks` as `module:function` are called first: they import modules of higher layers.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from headgate.spark.messages import HostAddress
from headgate.spark.processes import ending_of, node
from headgate.spark.record_files import record_file


@dataclass(frozen=True)
class SupervisorSettings:
    """What the starter hands over on standard input, as JSON."""

    name: str
    folder: str
    token: str
    owner: int
    tcp: bool
    memory: int
    path: list[str]
    python_path: str | None
    environment: dict[str, str]
    working_folder: str

    def file(self, suffix: str) -> Path:
        return Path(self.folder) / f"{self.name}.{suffix}"

    @property
    def record(self) -> Path:
        """The file of the flight record."""
        return record_file(Path(self.folder), self.name, self.owner)


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
    return HostAddress(node(), str(settings.file("sock")), os.getpid(), tcp, port, settings.owner)


def _node_address() -> str:
    """The address of this node for other nodes: the one that Spark uses, if it is set."""
    chosen = os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    with suppress(OSError):
        found = socket.gethostbyname(socket.gethostname())
        if not found.startswith("127."):
            return found
    # The name resolves to a loopback address: use that of the interface to other nodes. Nothing is sent.
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _announce(settings: SupervisorSettings, address: HostAddress) -> None:
    """Reports the host's address to the starter, and writes it to a file for later clients."""
    text = json.dumps(asdict(address))
    # Another version of Headgate on this node removes the files of hosts whose address it cannot read. It can read this
    # one, which has no owner.
    unfinished = settings.file("tmp")
    unfinished.write_text(json.dumps({name: value for name, value in asdict(address).items() if name != "owner"}))
    unfinished.rename(settings.file("json"))
    os.write(1, f"{text}\n".encode())
    # The starter waits for the end of this stream; output of users' functions goes to standard error.
    os.dup2(2, 1)


def main() -> None:
    """Runs a supervisor with the settings on standard input, or the parent of supervisors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A background process of its starter's terminal, it must be able to write there.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    if sys.argv[1:2] == ["forks"]:
        _fork_supervisors(sys.argv[2:])
    else:
        _supervise(SupervisorSettings(**json.loads(sys.stdin.buffer.read())))


def _supervise(settings: SupervisorSettings) -> None:
    """Runs a supervisor until the host has to end."""
    sys.path[:] = settings.path
    if settings.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = settings.python_path
    # First: while its number is still its own.
    owner_ended = ending_of(settings.owner)
    listeners = _listen(settings)
    address = _address(settings, listeners)
    _announce(settings, address)
    # Imported after the announcement, since it takes a second, and before the fork, so that a new process need not.
    from headgate.spark.supervision import Supervisor

    supervisor = Supervisor(settings, listeners, address, owner_ended)
    gc.freeze()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        supervisor.run()
    finally:
        supervisor.end()


def _fork_supervisors(loaders: Sequence[str]) -> None:
    """Forks a supervisor for each line of settings; ends with its starter, whose end closes standard input."""
    import headgate.spark.supervision  # noqa: F401

    for loader in loaders:
        module, _, name = loader.partition(":")
        getattr(import_module(module), name)()
    # No process waits for the supervisors.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin.buffer:
        if os.fork() == 0:
            _be_supervisor(SupervisorSettings(**json.loads(line)))


def _be_supervisor(settings: SupervisorSettings) -> NoReturn:
    """In a forked process: runs a supervisor, and never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.chdir(settings.working_folder)
        os.environ.clear()
        os.environ.update(settings.environment)
        _supervise(settings)
        code = 0
    except SystemExit:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _terminated(*_: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
