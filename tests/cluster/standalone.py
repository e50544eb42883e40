"""Spark's standalone cluster on this machine, from the installed PySpark: a master and workers of one core each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from tests.waiting import wait_until

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the URL for `--master`, and the processes of its workers."""

    master: str
    workers: tuple[subprocess.Popen[bytes], ...]


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
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
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
        except OSError:
            return -1

    try:
        first = start("master", "master.Master", "--port", str(port), "--webui-port", str(page))
        wait_until(lambda: alive() == 0, first)
        started = tuple(
            start(
                f"worker-{number}",
                "worker.Worker",
                *("-c", "1", "-m", "2g", "--webui-port", "0", "-d", f"{folder}/worker-{number}", master),
            )
            for number in range(workers)
        )
        wait_until(lambda: alive() == workers, started[-1])
        yield Cluster(master, started)
    finally:
        # A worker that is asked to end ends its executors.
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
