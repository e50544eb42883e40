"""A server over an engine that is not started: declarations are real, nothing runs. Requests go through sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.engine import Engine
from headgate.server.access import Access
from headgate.server.allowed import StatementPermissions
from headgate.server.app import application
from headgate.server.service import ServerLimits, Service
from headgate.server.serving import PageServer
from headgate.server.statement_log import StatementLog

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) USING json OPTIONS (path '{folder}/in')"


class LogInMemory:
    """Keeps the log of statements in memory."""

    def __init__(self) -> None:
        self.data: bytes | None = None

    def read(self) -> bytes | None:
        return self.data

    def write(self, data: bytes) -> None:
        self.data = data


@dataclass(frozen=True)
class Answer:
    """What the server answered; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class Http:
    """Sends requests to a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._place = urlsplit(url).netloc

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """`body` is sent as it is if it is bytes, in chunks if it is an iterator of bytes, and as JSON otherwise."""
        connection = HTTPConnection(self._place, timeout=60)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        data = body if body is None or isinstance(body, bytes | Iterator) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            known = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, known, response.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers=headers)

    def execute(self, sql: str) -> Answer:
        return self.request("POST", "/api/statements", {"sql": sql})


def service(folder: Path, limits: ServerLimits | None = None, kept: LogInMemory | None = None) -> Service:
    """A service that has not been started, and says that its engine runs."""
    allowed = StatementPermissions((str(folder),), ("tests.spark.functions",), protected=(str(folder / "checkpoint"),))
    engine = Engine("cqc", str(folder / "checkpoint"))
    made = Service(engine, allowed, limits, StatementLog(kept or LogInMemory()))
    made._set("running")
    return made


@contextmanager
def serving(made: Service, token: str | None = None) -> Iterator[Http]:
    """Serves the application on a free port."""
    server = PageServer(application(made, Access("127.0.0.1", token)), "127.0.0.1", 0)
    server.start()
    try:
        yield Http(server.url)
    finally:
        server.stop()
