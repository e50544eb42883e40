"""How task, driver and host talk over a socket: JSON frames, and record batches as Arrow IPC messages.

    client                                    host
    frame {"kind": "epoch", …}          →
                                        ←     frame {"kind": "go"}, or a refusal
    schema, record batches, empty frame →
                                        ←     frame {"kind": "answer", "length": n}, n bytes; or an error;
                                              or frame {"kind": "delivered"}: rows of other tasks are still missing

Other requests are {"kind": "close"}, answered by {"kind": "closed"}, and {"kind": "why"}, answered by how the last
process of the host ended. All have a "token". Refusals and errors are {"kind": "fenced", "checkpoint" or "error",
"message": …}.

A frame is its length (8 bytes, big-endian) and its bytes. Imports neither SQL nor the network: tasks load it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

CHUNK = 1 << 18
"""Bytes per read of the socket: with fewer calls, a reader waits less for Python's interpreter lock."""

LONGEST = 1 << 40
"""A frame that claims to be longer is not one of ours."""


class ConnectionLost(ConnectionError):
    """The other side has closed the connection, or its process has ended."""


class Wire:
    """One end of a connection. Used by one thread at a time; `end` may be called by any."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._chunk = memoryview(bytearray(CHUNK))
        self._start = self._stop = 0
        self._begun = False

    def close(self) -> None:
        """Closes it; a second call does nothing."""
        self._socket.close()

    def timeout(self, seconds: float | None) -> None:
        """Sets how long it waits for the other side; ConnectionLost after that."""
        self._socket.settimeout(seconds)

    def end(self) -> None:
        """Shuts the connection down: readers and writers on both sides find it closed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    # Sending ----------------------------------------------------------------------------------------------

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Sends a message, and the bytes that belong to it."""
        if data:
            message = {**message, "length": len(data)}
        body = json.dumps(message, separators=(",", ":")).encode()
        self._send(len(body).to_bytes(8, "big") + body, data)

    def send_rows(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Sends all batches, each as soon as it is available, and marks their end."""
        for batch in batches:
            self.send_batch(batch)
        self.end_rows()

    def send_batch(self, batch: pa.RecordBatch) -> None:
        """Sends a batch of rows; all up to `end_rows` have the same columns."""
        if not self._begun:
            self._begun = True
            self._send_buffer(batch.schema.serialize())
        self._send_buffer(batch.serialize())

    def end_rows(self) -> None:
        """Marks the end of the rows."""
        self._begun = False
        self._send(bytes(8))

    def _send_buffer(self, buffer: pa.Buffer) -> None:
        self._send(buffer.size.to_bytes(8, "big"), buffer)

    def _send(self, head: bytes, body: bytes | pa.Buffer = b"") -> None:
        try:
            self._socket.sendall(head)
            if len(body):
                self._socket.sendall(body)
        except OSError as error:
            raise ConnectionLost(f"the connection was lost while sending: {error}") from error

    # Receiving --------------------------------------------------------------------------------------------

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next message, and the bytes that belong to it."""
        body = self._frame()
        if body is None:
            raise ConnectionLost("an empty message")
        message = json.loads(body.to_pybytes())
        if not isinstance(message, dict):
            raise ConnectionLost("not a message")
        length = int(message.pop("length", 0))
        return message, self._read(length).to_pybytes() if length else b""

    def receive_rows(self) -> Iterator[pa.RecordBatch]:
        """The batches up to the mark of their end."""
        head = self._frame()
        if head is None:
            return
        schema = pa.ipc.read_schema(head)
        while (body := self._frame()) is not None:
            yield pa.ipc.read_record_batch(body, schema)

    def _frame(self) -> pa.Buffer | None:
        length = int.from_bytes(self._read(8).to_pybytes(), "big")
        if length > LONGEST:
            raise ConnectionLost("what was received is not a frame")
        return self._read(length) if length else None

    def _read(self, length: int) -> pa.Buffer:
        """Exactly this many bytes, in memory of their own."""
        buffer = pa.allocate_buffer(length)
        view = memoryview(buffer).cast("B")
        known = min(self._stop - self._start, length)
        view[:known] = self._chunk[self._start : self._start + known]
        self._start += known
        while known < length:
            if length - known >= CHUNK:
                known += self._receive_into(view[known:], socket.MSG_WAITALL)
                continue
            self._start, self._stop = 0, self._receive_into(self._chunk)
            taken = min(self._stop, length - known)
            view[known : known + taken] = self._chunk[:taken]
            self._start = taken
            known += taken
        return buffer

    def _receive_into(self, view: memoryview, flags: int = 0) -> int:
        try:
            count = self._socket.recv_into(view, 0, flags)
        except OSError as error:
            raise ConnectionLost(f"the connection was lost while receiving: {error}") from error
        if not count:
            raise ConnectionLost("the other side has closed the connection")
        return count
