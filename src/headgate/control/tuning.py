"""Runs the optimizer beside an engine: a thread that observes every second and hands over changed settings."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headgate.control.decisions import DecisionHistory
from headgate.control.impossible import Reachable
from headgate.control.observation import Observation
from headgate.control.optimizer import Optimizer
from headgate.control.setting import Setting
from headgate.scheduling.decisions import Decision

_LOG = logging.getLogger("headgate.optimizer")

THREAD = "headgate-optimizer"
EVERY = 1.0
"""Seconds between two observations."""
SWITCH_INTERVAL = 0.0005
"""Seconds after which predictions, which compute in Python for up to some seconds, let another thread of the driver go
on. By default Python's threads wait 5 ms for each other, dozens of times in an epoch."""


class Tuning:
    """The optimizer of one engine, from `start` to `close`.

    - `observe` returns the observation under a setting; None if there is nothing to tune
    - `apply` is called with every new setting
    """

    def __init__(
        self,
        usual: Setting,
        observe: Callable[[Setting], Observation | None],
        apply: Callable[[Setting], None],
        decisions: DecisionHistory,
    ) -> None:
        self._decisions = decisions
        self._usual = usual
        self._optimizer = Optimizer(usual, self._decided)
        self._observe = observe
        self._apply = apply
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def setting(self) -> Setting:
        """The setting that the optimizer has chosen last."""
        return self._optimizer.setting

    def renew(self) -> None:
        """Begins with a new optimizer, at the usual setting."""
        self._optimizer = Optimizer(self._usual, self._decided)

    @property
    def impossible(self) -> Mapping[str, Reachable]:
        """See `Optimizer.impossible`."""
        return self._optimizer.impossible

    def close(self) -> None:
        """Ends the thread, after the change in progress, if any; a prediction that takes long is abandoned."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _decided(self, decision: Decision) -> None:
        self._decisions.add(decision)
        if not decision.intervals:
            _LOG.info("%s %s: %s (%s)", decision.kind, decision.subject, decision.chosen, decision.reason)

    def _work(self) -> None:
        while not self._closed.wait(EVERY):
            try:
                self._look()
            except Exception:  # a failed prediction must not stop the engine
                if not self._closed.is_set():
                    _LOG.exception("the run-time optimizer failed; the setting stays as it is")

    def _look(self) -> None:
        optimizer = self._optimizer
        before = optimizer.setting
        seen = self._observe(before)
        if seen is None or (not seen.demands and before == self._usual):
            return
        with _giving_way():
            setting = optimizer.tick(seen)
        if setting != before and not self._closed.is_set():
            self._apply(setting)


@contextmanager
def _giving_way() -> Iterator[None]:
    """Threads of this process wait less for each other meanwhile."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
