"""Spark's standalone cluster on this machine, from the installed PySpark: a master and workers of one core each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from tests.waiting import wait_until

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the URL for `--master`, its folder, and the processes of its workers.

    `start_worker` starts a worker of this number, in the place of one that has ended.
    """

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]]
    start_worker: Callable[[int], subprocess.Popen[bytes]]

    def processes(self) -> dict[int, str]:
        """The commands of all processes that workers have started: executors, Python workers and hosts."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            # A process may end while it is looked at.
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "cwd").resolve().is_relative_to(self.folder):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        own = {worker.pid for worker in self.workers}
        return {pid: command for pid, command in found.items() if pid not in own and "deploy.master" not in command}


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Starts a cluster that keeps its files and logs in `folder`; ends it with all its executors."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = _free_port(), _free_port()
    master = f"spark://{HOST}:{port}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, class_: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [f"{_find_spark_home()}/bin/spark-class", f"org.apache.spark.deploy.{class_}", "--host", HOST]
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            # Executors may be killed as often as a test likes.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.deploy.maxExecutorRetries=-1",
        }
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen([*command, *arguments], env=environment, stdout=log, stderr=log, cwd=folder)
            )
        return processes[-1]

    def alive() -> int:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=10) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            # A master that is starting does not answer yet, or answers every address with its page.
            return -1

    try:
        first = start("master", "master.Master", "--port", str(port), "--webui-port", str(page))
        wait_until(lambda: alive() == 0, first)

        def start_worker(number: int) -> subprocess.Popen[bytes]:
            arguments = ("-c", "1", "-m", "2g", "--webui-port", "0", "-d", f"{folder}/worker-{number}", master)
            return start(f"worker-{number}", "worker.Worker", *arguments)

        started = [start_worker(number) for number in range(workers)]
        wait_until(lambda: alive() == workers, started[-1])
        yield Cluster(master, folder.resolve(), started, start_worker)
    finally:
        # A worker that is asked to end ends its executors.
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def run_python(module: str, *arguments: object) -> list[str]:
    """Runs a module of the tests in a process of its own, and returns the lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
