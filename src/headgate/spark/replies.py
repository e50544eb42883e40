"""Answers that hosts send to the driver directly, before the job that asked for them has ended.

Spark takes some 15 ms from the end of a task until the driver has its rows. A host beside the driver therefore sends
its answer twice, to the driver's socket and to the task. The epoch is committed and published with the first of them.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from headgate.spark.messages import EpochAnswer, EpochRequest
from headgate.spark.wire import ConnectionLost, Wire

_TIMEOUT = 5.0
"""Seconds that a connection may take to deliver its answer."""


class NoReply(RuntimeError):
    """A job has ended, and the answer of a host has not reached the driver's socket."""


class Replies:
    """The driver's socket for answers. `first` is called by one thread; a separate thread accepts connections."""

    def __init__(self, folder: Path, token: str) -> None:
        self._token = token.encode()
        self._path = folder / f"driver-{os.getpid()}-{secrets.token_hex(4)}.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen(16)
        self._changed = threading.Condition()
        self._wanted = ""
        self._found: dict[int, EpochAnswer] = {}
        threading.Thread(target=self._accept, name="headgate-replies", daemon=True).start()

    @property
    def address(self) -> str:
        """The path of the socket."""
        return str(self._path)

    def first(
        self, request: EpochRequest, replicas: int, start: Callable[[], Future[tuple[EpochAnswer, ...] | None]]
    ) -> tuple[EpochAnswer, ...]:
        """The answers of all replicas to a request, as the hosts send them or as the job returns them, whichever is
        first. `start` starts the job, whose error is raised if it fails before the hosts have answered. A job that
        returns None leaves the answers to the hosts; NoReply if one of them does not come."""
        with self._changed:
            self._wanted, self._found = request.attempt, {}
        job = start()
        job.add_done_callback(lambda _: self._notify())
        with self._changed:
            self._changed.wait_for(lambda: len(self._found) == replicas or job.done())
            if job.done() and job.exception() is None and job.result() is None:
                self._changed.wait_for(lambda: len(self._found) == replicas, _TIMEOUT)
            self._wanted = ""
            if len(self._found) == replicas:
                return tuple(self._found[replica] for replica in range(replicas))
        answers = job.result()
        if answers is None:
            raise NoReply(f"NoReply: the job of epoch {request.epoch} has ended, and a host's answer has not come")
        return answers

    def close(self) -> None:
        """Takes no more answers."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(_TIMEOUT)
            wire = Wire(connection)
            try:
                self._receive(wire)
            except (ConnectionLost, TimeoutError, ValueError, KeyError):
                # The answer also comes through the task.
                pass
            finally:
                wire.close()

    def _receive(self, wire: Wire) -> None:
        message, data = wire.receive()
        if not hmac.compare_digest(str(message.get("token", "")).encode(), self._token):
            return
        with self._changed:
            # Answers to abandoned attempts are ignored.
            if message["attempt"] == self._wanted:
                answer = EpochAnswer.unpack(data)
                self._found[answer.replica] = answer
                self._changed.notify_all()


def reply(request: EpochRequest, answer: bytes) -> None:
    """Sends a packed answer to the driver of a request, if the driver accepts answers; errors are ignored."""
    if not request.reply:
        return
    with suppress(OSError):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_TIMEOUT)
        wire = Wire(connection)
        try:
            connection.connect(request.reply)
            wire.send({"kind": "answer", "token": request.token, "attempt": request.attempt}, answer)
        finally:
            wire.close()
