"""`headgate serve` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.server.client import Client, ServerError
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


class ServerProcess:
    """A server in a folder, with its output in a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._log = folder / "serve.log"
        arguments = ["serve", "--port", "0", "--allow-function", "tests.spark.functions", *options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        with self._log.open("ab") as output:
            start = self._log.stat().st_size
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headgate.cli.main", *arguments],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: b"headgate: http://" in self._log.read_bytes()[start:], self.process)
        line = self._log.read_bytes()[start:].split(b"headgate: http://")[1].split(b"\n")[0]
        self.url = f"http://{line.decode().strip()}"
        self.client = Client(self.url)

    def await_running(self) -> None:
        def running() -> bool:
            try:
                return bool(self.client.status()["state"] == "running")
            except ServerError:
                return False

        wait_until(running, self.process)

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(120)


@contextmanager
def server_process(folder: Path, *options: str) -> Iterator[ServerProcess]:
    made = ServerProcess(folder, *options)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end()
