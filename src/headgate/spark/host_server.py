"""The connections of a host: each brings rows of one epoch, or asks the host to end (`wire.py` has the messages)."""

from __future__ import annotations

import hmac
import logging
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from headgate.runtime.limits import text_of
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.host import Host, Refused
from headgate.spark.messages import EpochAnswer, EpochRequest
from headgate.spark.replies import reply
from headgate.spark.wire import ConnectionLost, Wire

_LOG = logging.getLogger("headgate.host")

SWITCH_INTERVAL = 0.0002
"""Seconds after which a thread that runs Python code lets another one go on: a user's function must not keep the thread
that reads new rows waiting."""

_HEAD_TIMEOUT = 10.0
"""Seconds that a new connection has to say what it wants."""


class HostServer:
    """Serves a host's connections. `close` is called, and must not return, when a client asks the host to end.

    `check` is called with each error of the host's own work; it does not return if the process cannot go on.
    `connections` is the number of those that are open: each has a descriptor and a thread.
    """

    def __init__(
        self, host: Host, token: str, close: Callable[[], None], check: Callable[[Exception], None] = lambda _: None
    ) -> None:
        self._host = host
        self._token = token.encode()
        self._close = close
        self._check = check
        self._open: set[int] = set()

    @property
    def connections(self) -> int:
        return len(self._open)

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Accepts connections for ever."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        with selectors.DefaultSelector() as selector:
            for listener in listeners:
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    with suppress(BlockingIOError, ConnectionError):
                        connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                        self._open.add(id(connection))
                        name = "headgate-connection"
                        threading.Thread(target=self.connected, args=(connection,), name=name, daemon=True).start()

    def connected(self, connection: socket.socket) -> None:
        """Serves one connection."""
        wire = Wire(connection)
        try:
            connection.settimeout(_HEAD_TIMEOUT)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._serve(connection, wire)
        except (ConnectionLost, TimeoutError) as error:
            # The task is gone; the driver repeats its epoch.
            self._check(error)
        except Exception as error:
            self._check(error)
            _LOG.exception("a connection could not be served")
        finally:
            with suppress(OSError):
                wire.close()
            self._open.discard(id(connection))

    def _serve(self, connection: socket.socket, wire: Wire) -> None:
        head, _ = wire.receive()
        if not hmac.compare_digest(str(head.get("token", "")).encode(), self._token):
            wire.send({"kind": "error", "message": "the token is wrong"})
            return
        connection.settimeout(None)
        if head["kind"] == "close":
            wire.send({"kind": "closed"})
            self._close()
        elif head["kind"] == "why":
            wire.send({"kind": "why", "message": self._host.last_death})
        elif head["kind"] == "epoch":
            try:
                self._epoch(head, wire)
            except ConnectionLost:
                raise
            except Refused as error:
                wire.send({"kind": error.kind, "message": str(error)})
            except CheckpointError as error:
                self._check(error)
                wire.send({"kind": "checkpoint", "message": str(error)})
            except Exception as error:
                self._check(error)
                _LOG.exception("an epoch failed")
                wire.send({"kind": "error", "message": text_of(error)})
        else:
            wire.send({"kind": "error", "message": f"there is no request of kind {head['kind']}"})

    def _epoch(self, head: dict[str, Any], wire: Wire) -> None:
        request = EpochRequest.parse(head["request"])
        # Before any row is sent: the task reads nothing else until all its rows are sent.
        self._host.check(request)
        wire.send({"kind": "go"})
        rows = wire.receive_rows()

        def send(answer: EpochAnswer) -> None:
            packed = answer.pack()
            reply(request, packed)
            wire.send({"kind": "answer"}, packed)

        try:
            number = int(head["number"])
            delivered = partial(wire.send, {"kind": "delivered"})
            self._host.epoch(request, str(head["task"]), lambda: rows, send, wire.end, number, delivered)
        except ConnectionLost:
            raise
        except Exception:
            for _ in rows:
                pass
            raise
