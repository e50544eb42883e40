"""Spark's standalone cluster on this machine, from the installed PySpark: a master and workers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
LIMIT = 600.0
"""Seconds after which a cluster is given up: far more than a busy machine needs."""


@dataclass(frozen=True)
class StandaloneCluster:
    """A running cluster: the URL for `--master`, its folder, and the processes of its workers.

    `start_worker` starts a worker of this number, a new one or in the place of one that has ended.
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
def standalone(folder: Path, workers: int = 2, cores: int = 1) -> Iterator[StandaloneCluster]:
    """Starts a cluster of workers with so many cores each, that keeps its files and logs in `folder`; ends it with all
    its executors."""
    from pyspark.find_spark_home import _find_spark_home

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
        _wait_until(lambda: alive() == 0, first)

        def start_worker(number: int) -> subprocess.Popen[bytes]:
            arguments = ("-c", str(cores), "-m", "2g", "--webui-port", "0", "-d", f"{folder}/worker-{number}", master)
            return start(f"worker-{number}", "worker.Worker", *arguments)

        started = [start_worker(number) for number in range(workers)]
        _wait_until(lambda: alive() == workers, started[-1])
        yield StandaloneCluster(master, folder.resolve(), started, start_worker)
    finally:
        # A worker that is asked to end ends its executors.
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"a process of the cluster ended with code {process.returncode}; see the logs")
        if time.monotonic() > end:
            raise RuntimeError(f"the cluster has not started within {LIMIT:g} seconds")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
