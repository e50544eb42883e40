"""Clients of a server that follow results, all in one process: `python -m headgate.bench.following URL SECONDS QUERY…`.

Prints one JSON object: how far behind the events were when they arrived.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from typing import Any
from urllib.parse import quote, urlsplit

_READ = 1 << 18


class FollowingClient:
    """One connection, and the lags (s) of the events that it has received."""

    def __init__(self, url: str, query: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        path = f"/api/queries/{quote(query, safe='')}/results/events"
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        self.socket.setblocking(False)
        self._text = b""
        self.lags: list[float] = []
        self.missed = 0

    def read(self) -> bool:
        """Reads the events that have arrived; False at the end of the stream."""
        data = self.socket.recv(_READ)
        now = time.time()
        self._text += data
        # HTTP chunks end between events, so the chunk sizes in between are never inside an event.
        while (end := self._text.find(b"\n\n")) >= 0:
            event, self._text = self._text[:end], self._text[end + 2 :]
            self.missed += b"event: missed" in event
            if b"event: results" in event:
                head = event[event.index(b'"time":') + 7 :]
                self.lags.append(now - float(head[: head.index(b",")]))
        return bool(data)


def follow(url: str, seconds: float, queries: list[str]) -> dict[str, Any]:
    """Follows each query of the list with a separate client, for some seconds."""
    ready = selectors.DefaultSelector()
    clients = [FollowingClient(url, query) for query in queries]
    for client in clients:
        ready.register(client.socket, selectors.EVENT_READ, client)
    end = time.monotonic() + seconds
    ended = 0
    while time.monotonic() < end:
        for key, _ in ready.select(0.5):
            if not key.data.read():
                ready.unregister(key.fileobj)
                ended += 1
    lags = sorted(lag for client in clients for lag in client.lags)
    return {
        "clients": len(clients),
        "served": sum(bool(client.lags) for client in clients),
        "events": len(lags),
        "missed": sum(client.missed for client in clients),
        "ended": ended,
        "p99_s": lags[int(0.99 * (len(lags) - 1))] if lags else None,
        "most_s": lags[-1] if lags else None,
    }


if __name__ == "__main__":
    print(json.dumps(follow(sys.argv[1], float(sys.argv[2]), sys.argv[3:])))
