"""An S3 server on this machine for tests: moto's, from this Python or from that in `HEADGATE_MOTO_PYTHON`."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import fs

from tests.waiting import wait_until

HOST = "127.0.0.1"


@dataclass(frozen=True)
class S3Server:
    """A running server; `uri` names a place in its bucket."""

    port: int
    process: subprocess.Popen[bytes]

    def uri(self, path: str) -> str:
        options = f"endpoint_override={HOST}:{self.port}&scheme=http&region=us-east-1"
        return f"s3://key:secret@bucket/{path}?{options}"

    def files(self) -> fs.S3FileSystem:
        return fs.FileSystem.from_uri(f"{self.uri('')}&allow_bucket_creation=true")[0]


def python_with_moto() -> str:
    """The Python to start the server with; skips the test if there is none."""
    found = os.environ.get("HEADGATE_MOTO_PYTHON")
    if found is None and (importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None):
        pytest.skip(
            "moto is not installed: pip install 'moto[s3,server]', here or in an environment of its own whose"
            " Python HEADGATE_MOTO_PYTHON names"
        )
    return found or sys.executable


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Starts a server with an empty bucket."""
    python = python_with_moto()
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            [python, "-m", "moto.server", "-H", HOST, "-p", str(port)], stdout=log, stderr=log, env=environment
        )
    server = S3Server(port, process)

    def answers() -> bool:
        with socket.socket() as connection:
            return connection.connect_ex((HOST, port)) == 0

    try:
        wait_until(answers, process)
        server.files().create_dir("bucket")
        yield server
    finally:
        process.kill()
        process.wait()
