"""A feeder in a separate process, so that feeding takes no time from what is measured in this one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection

from headgate.feeder.feeder import Feeder, FeedError, Progress


class FeederProcess:
    """Runs a feeder in another process.

    `make` returns the feeder; it is called in that process, so it must be a module-level function with `arguments` that
    can be pickled. Rows are sent from `start` until they end or `stop` is called.
    """

    def __init__(self, make: Callable[..., Feeder], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_work, args=(there, make, arguments), daemon=True)
        self._last = Progress(0.0, {})

    def prepare(self) -> None:
        """Starts the process, which takes a second, but not the feeder."""
        if self._process.pid is None:
            self._process.start()
            self._answer()

    def start(self) -> None:
        """Starts sending."""
        self.prepare()
        self._ask("start")

    @property
    def pid(self) -> int:
        """The id of the process, once it is prepared."""
        return self._process.pid or 0

    def progress(self) -> Progress:
        """What was sent so far."""
        if self._process.is_alive():
            self._last = self._ask("progress")
        return self._last

    def stop(self) -> None:
        """Stops after the current batch and ends the process; does nothing if it was never started."""
        if self._process.is_alive():
            self._last = self._ask("stop")
            self._process.join()

    def _ask(self, what: str) -> Progress:
        self._here.send(what)
        return self._answer()

    def _answer(self) -> Progress:
        try:
            answer = self._here.recv()
        except EOFError:
            raise FeedError(f"the process of the feeder has ended (exit code {self._process.exitcode})") from None
        if isinstance(answer, str):
            raise FeedError(answer)
        assert isinstance(answer, Progress)
        return answer


def _work(orders: Connection, make: Callable[..., Feeder], arguments: tuple[object, ...]) -> None:
    """Executes the requests of the parent process until it asks to stop or has ended."""
    feeder = make(*arguments)
    orders.send(Progress(0.0, {}))
    parent = os.getppid()
    while os.getppid() == parent:
        if not orders.poll(1.0):
            continue
        try:
            order = orders.recv()
        except EOFError:
            break
        if order == "start":
            feeder.start()
        elif order == "stop":
            feeder.stop()
        orders.send(str(feeder.failure) if feeder.failure is not None else feeder.progress())
        if order == "stop":
            break
