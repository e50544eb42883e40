"""A client of a running server, with the methods of `Engine`. Needs only Python's standard library and Arrow."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from headgate.sql.errors import SqlError

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.graph.queries import Sink

DEFAULT_URL = "http://127.0.0.1:8642"
_PATIENCE = 120.0
"""Seconds to wait for an answer: starting an engine or restarting lanes takes a while."""


class ServerError(RuntimeError):
    """The server cannot be reached or refuses; the message says why. `status`: the HTTP status, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def connect(url: str = DEFAULT_URL, token: str | None = None) -> Client:
    """A client of the server at this address. Nothing is sent before the first call."""
    return Client(url, token)


class Client:
    """Calls a server. Each call opens its own connection, so all methods may be called from any thread.

    A refused statement raises SqlError with the position in the text, any other failure raises ServerError.
    """

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise ServerError(f"{url} is not the address of a server; write for example {DEFAULT_URL}")
        self._parts = parts
        self._token = token
        self.url = url.rstrip("/")

    # As Engine --------------------------------------------------------------------------------------------

    def execute(self, text: str, file: str = "<text>") -> list[dict[str, str]]:
        """Executes statements, all or none; returns what each did."""
        return self._statements("/api/statements", text, file)

    def check(self, text: str, file: str = "<text>") -> list[dict[str, str]]:
        """What `execute` would do; nothing is registered."""
        return self._statements("/api/check", text, file)

    def query(
        self,
        name: str,
        select: str,
        *,
        cls: str | None = None,
        sink: Sink | Sequence[Sink] = (),
        spec: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Registers a query."""
        sinks = sink if isinstance(sink, Sequence) else (sink,)
        parts = [f"CREATE QUERY {_name(name)}", *([f"CLASS {_name(cls)}"] if cls is not None else [])]
        for each in sinks:
            options = ", ".join(f"{_text(key)} {_text(value)}" for key, value in each.options.items())
            parts.append(f"INTO {_name(each.format)}" + (f" OPTIONS ({options})" if options else ""))
        if spec:
            parts.append("WITH (" + ", ".join(f"{key} = {_text(str(value))}" for key, value in spec.items()) + ")")
        before = " ".join(parts) + " AS\n"
        try:
            self.execute(before + select, name)
        except SqlError as error:
            if error.line > 1:
                # Positions refer to the SELECT, as in `Engine.query`.
                raise SqlError(error.message, name, error.line - 1, error.column) from None
            raise
        return self.declared(name)

    def declared(self, name: str) -> dict[str, Any]:
        """One query: its state, SQL, columns and figures."""
        return self._call("GET", _query(name))

    @property
    def queries(self) -> dict[str, dict[str, Any]]:
        return {query["name"]: query for query in self._call("GET", "/api/queries")["queries"]}

    @property
    def streams(self) -> dict[str, dict[str, Any]]:
        return {stream["name"]: stream for stream in self._call("GET", "/api/streams")["streams"]}

    def drop(self, name: str) -> None:
        """Stops a query and drops its state."""
        self._call("DELETE", _query(name))

    def pause(self, name: str) -> None:
        self._call("POST", f"{_query(name)}/pause")

    def resume(self, name: str) -> None:
        self._call("POST", f"{_query(name)}/resume")

    def retry(self, name: str) -> None:
        """Runs a failed query again."""
        self._call("POST", f"{_query(name)}/retry")

    @property
    def policy(self) -> str:
        return str(self._call("GET", "/api/policy")["policy"])

    @policy.setter
    def policy(self, policy: str) -> None:
        self._call("PUT", "/api/policy", {"policy": policy})

    @property
    def policies(self) -> dict[str, str]:
        """The policies that the server can run, each with a line about it."""
        return {each["name"]: each["about"] for each in self._call("GET", "/api/policy")["policies"]}

    @property
    def objectives(self) -> dict[str, float]:
        return dict(self._call("GET", "/api/objectives")["objectives"])

    @objectives.setter
    def objectives(self, weights: Mapping[str, float]) -> None:
        self._call("PUT", "/api/objectives", {"objectives": dict(weights)})

    def results(self, query: str, limit: int | None = None) -> pa.Table:
        """The newest rows of a query, oldest first: at most `limit`, by default 100."""
        import pyarrow as pa

        path = f"{_query(query)}/results" + ("" if limit is None else f"?{urlencode({'limit': limit})}")
        with self._open("GET", path, accept="application/vnd.apache.arrow.stream") as response:
            return pa.ipc.open_stream(response.read()).read_all()

    def follow(self, query: str, listener: Callable[[list[dict[str, Any]]], None]) -> Callable[[], None]:
        """Calls `listener` with the new rows of each epoch, on a separate thread, until the returned function is
        called, the query is dropped or the server stops."""
        events = self.events(f"{_query(query)}/results/events")
        next(events)
        ended = threading.Event()

        def work() -> None:
            for kind, value in events:
                if ended.is_set():
                    return
                if kind == "results":
                    listener(value["rows"])

        threading.Thread(target=work, name="headgate-follow", daemon=True).start()
        return ended.set

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """The new rows of a query as they are published, until it is dropped or the server stops."""
        for kind, value in self.events(f"{_query(query)}/results/events"):
            if kind == "results":
                yield from value["rows"]

    def metrics(self) -> dict[str, Any]:
        return self._call("GET", "/api/metrics")

    def decisions(self) -> list[dict[str, Any]]:
        """The newest decisions that the engine made by itself, and why, oldest first."""
        return list(self._call("GET", "/api/decisions")["decisions"])

    # Of a server ------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What the server does: its state, policy and number of queries."""
        return self._call("GET", "/api/status")

    def dead_letters(self) -> dict[str, Any]:
        """How many malformed rows each stream had, and the newest of them."""
        return self._call("GET", "/api/dead_letters")

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The server-sent events of a path: their kinds and values."""
        with self._open("GET", path, accept="text/event-stream", patience=None) as response:
            kind = ""
            while line := response.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    # Inside -----------------------------------------------------------------------------------------------

    def _statements(self, path: str, text: str, file: str) -> list[dict[str, str]]:
        return list(self._call("POST", path, {"sql": text}, file)["statements"])

    def _call(self, method: str, path: str, body: Any = None, file: str = "<text>") -> dict[str, Any]:
        with self._open(method, path, body, file=file) as response:
            try:
                found: dict[str, Any] = json.loads(response.read())
            except ValueError as error:
                raise ServerError(f"{self.url} does not answer as a Headgate server does") from error
            return found

    def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        file: str = "<text>",
        accept: str = "application/json",
        patience: float | None = _PATIENCE,
    ) -> HTTPResponse:
        """Sends a request; returns the response if it succeeds. Closing the response closes the connection."""
        make = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = make(self._parts.hostname or "", self._parts.port, timeout=patience)
        headers = {"Accept": accept, "Connection": "close"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            if response.status == 200:
                return response
            text = response.read()
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerError(f"{self.url} cannot be reached: {reason.lower()}; is headgate serve running?") from error
        raise _error(response.status, text, file)


def _error(status: int, text: bytes, file: str) -> Exception:
    try:
        found = json.loads(text)
        message = str(found["message"])
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answers with status {status}", status)
    if "line" in found:
        return SqlError(message, file, found["line"], found["column"])
    return ServerError(message, status)


def _query(name: str) -> str:
    return f"/api/queries/{quote(name, safe='')}"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
