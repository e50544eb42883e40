"""A Kafka broker on this machine, for tests, benches and the tour: one process in KRaft mode, on loopback ports.

`python -m headgate.feeder.broker start [--port 9092]` starts one that outlives the command (`make kafka`), and `stop`
ends it. The server's jars are fetched by Maven into the cache (`headgate.spark.packages`).
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from headgate.spark.packages import KAFKA_BROKER, PackageError, cache, class_path, fetched
from headgate.spark.processes import end_with_parent

_HOST = "127.0.0.1"
_START = 120.0
"""Seconds that the broker has to open its port."""
_STOP = 60.0
"""Seconds that the broker has to shut down."""
# Small and short-lived: single-threaded garbage collection, no optimizing (C2) compiler.
_JAVA = ("-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_NODE = "1"
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": _NODE,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    # Retention goes by the timestamps of messages, which are old in tests and recorded rows.
    "log.retention.ms": "-1",
}


class Broker:
    """A broker whose data is in `folder`; it can be stopped, killed and started again on the same port.

    It ends with the thread that starts it, whatever ends that: nothing remains of a bench or a test that is killed.
    `outlives`: it does not. `settings` override those of the server.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        outlives: bool = False,
    ) -> None:
        self._folder = folder
        ports = _free_ports(2)
        self._port = port or ports[0]
        self._controller = ports[1]
        self._settings = dict(settings or {})
        self._outlives = outlives
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """The value of `kafka.bootstrap.servers`."""
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts it and waits until it takes connections. PackageError if its jars cannot be obtained."""
        java = shutil.which("java")
        if java is None:
            raise PackageError("there is no Java (java) on the PATH")
        command = [java, *_JAVA, "-cp", class_path(fetched(KAFKA_BROKER))]
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "server.properties"
        if not file.exists():
            _write(file, self._properties())
            # The same as Kafka's storage formatting tool writes; running it takes another JVM two seconds.
            data = {"version": "1", "cluster.id": _identity(), "node.id": _NODE, "directory.id": _identity()}
            _write(self._folder / "data" / "meta.properties", data)
        with (self._folder / "output.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", str(file)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=None if self._outlives else partial(end_with_parent, os.getpid()),
            )
        try:
            self._wait_until_open(self._process)
        except BaseException:
            self.kill()
            raise

    def _wait_until_open(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _START
        while not _open(self._port):
            if process.poll() is not None or time.monotonic() > until:
                raise OSError(f"the broker did not start; its output is in {self._folder / 'output.log'}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Shuts it down in order; its data remains."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it, as a crash does; its data remains."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _properties(self) -> dict[str, str]:
        data = f"PLAINTEXT://{self.servers}"
        return {
            **_SETTINGS,
            "controller.quorum.voters": f"{_NODE}@{_HOST}:{self._controller}",
            "listeners": f"{data},CONTROLLER://{_HOST}:{self._controller}",
            "advertised.listeners": data,
            "log.dirs": str(self._folder / "data"),
            **self._settings,
        }


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _identity() -> str:
    """An identifier in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    held = [socket.create_server((_HOST, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _open(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """`start` or `stop`: one broker per user, whose data is removed when it is stopped."""
    parser = argparse.ArgumentParser("headgate.feeder.broker", description=__doc__)
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("--port", type=int, default=9092)
    given = parser.parse_args(arguments)
    note = cache() / "kafka" / "running"
    running = note.read_text().split("\n") if note.exists() else []
    if given.action == "stop":
        if not running:
            print("no broker was started")
            return 1
        _stop_noted(int(running[0]), running[1])
        note.unlink()
        return 0
    if running and _is_broker(int(running[0]), running[1]):
        print(f"a broker is running already; its data is in {running[1]}")
        return 1
    note.parent.mkdir(parents=True, exist_ok=True)
    broker = Broker(Path(tempfile.mkdtemp(prefix="headgate-kafka-")), given.port, outlives=True)
    try:
        broker.start()
    except (OSError, PackageError) as error:
        print(error, file=sys.stderr)
        return 1
    note.write_text(f"{broker.pid}\n{broker._folder}")
    print(f"a Kafka broker listens on {broker.servers}; `make kafka-stop` ends it")
    return 0


def _is_broker(pid: int, folder: str) -> bool:
    """Whether the recorded process still runs, and its number was not reused for another one."""
    try:
        return folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _stop_noted(pid: int, folder: str) -> None:
    if _is_broker(pid, folder):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _STOP
        while _is_broker(pid, folder) and time.monotonic() < until:
            time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
