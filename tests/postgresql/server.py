"""A PostgreSQL server for tests, on a Unix socket's folder and a loopback port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path


class ServerMissing(RuntimeError):
    """PostgreSQL is not installed."""


class Server:
    """A server whose data is in `folder`; PostgreSQL refuses to run as root, which then gives it to another user."""

    def __init__(self, folder: Path) -> None:
        programs = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
        found = shutil.which("initdb") or next((str(p / "initdb") for p in programs if (p / "initdb").exists()), None)
        if found is None:
            raise ServerMissing("there is no PostgreSQL server; on Debian: apt-get install postgresql")
        self._programs = Path(found).resolve().parent
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.port = held.getsockname()[1]
        self.user, self.password = "headgate", "s3cr3t-of-the-tests"
        self.url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Makes the data, if there is none, and starts the server."""
        data = self._folder / "data"
        if not data.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            secret = self._folder / "password"
            secret.write_text(self.password)
            if os.getuid() == 0:
                shutil.chown(self._folder, "postgres")
                shutil.chown(secret, "postgres")
                for parent in list(self._folder.parents)[:-2]:
                    parent.chmod(parent.stat().st_mode | 0o011)
            self._run("initdb", "-D", str(data), "-U", self.user, "--pwfile", str(secret), "-A", "scram-sha-256", "-N")
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -k {self._folder}"
        self._run("pg_ctl", "-D", str(data), "-w", "-o", settings, "-l", str(self._folder / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """Ends it; with mode `immediate` as a crash does."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", mode, "-w", "stop")

    def ask(self, sql: str) -> list[list[str]]:
        """The rows of a query as texts, by psql."""
        environment = {**os.environ, "PGPASSWORD": self.password}
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, "-d", "postgres"]
        command = [
            str(self._programs / "psql"),
            *place,
            "-X",
            "-A",
            "-t",
            "-F",
            "\t",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines() if line]

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._programs / program), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/"
        )
        assert done.returncode == 0, done.stderr
