"""Serves an application on a separate thread."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import uvicorn

from headgate.server.access import AccessError
from headgate.server.app import RequestGuard


class PageServer:
    """An HTTP server on a thread. `port` 0 means any free port; `url` has the actual one.

    AccessError if the port is taken.
    """

    def __init__(self, app: RequestGuard, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"cannot listen on {host}, port {port}: {reason}; give another with --port") from error
        self._app = app
        # Requests are not logged: a URL may contain confidential data.
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="error",
            # The default of uvicorn would re-enable disabled loggers of this process.
            log_config=None,
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=1 << 16,
        )
        self._server = uvicorn.Server(config)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="headgate-http", daemon=True)

    def start(self) -> None:
        """Starts serving; returns when requests are served."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)

    def stop(self) -> None:
        """Ends the streams of events, finishes requests and ends the thread."""
        self._server.should_exit = True
        self._app.end_streams()
        self._thread.join(10)

    def _serve(self) -> None:
        with closing(self._socket):
            self._server.run(sockets=[self._socket])
