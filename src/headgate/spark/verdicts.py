"""Why a network's process died, and which operator is to blame: its queries fail, and all others continue."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.spark.flight_record import RunningStage
from headgate.spark.messages import BLAMED

STRIKES = 3
"""An operator that ran at this many deaths in a row, without an answer between them, is to blame even if the process
was killed from outside (the system may have run out of memory)."""

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


@dataclass(frozen=True)
class Death:
    """Why a process ended: `reason` continues a sentence about what ran, `text` is a sentence about the process.

    `stages` are those known to be the cause: over their time, running while memory grew, or with a large state
    (`function` is then False).
    """

    kind: Literal["time", "memory", "exit", "crash", "killed"]
    reason: str
    text: str
    stages: frozenset[int] = frozenset()
    function: bool = True

    @staticmethod
    def of(status: int) -> Death:
        """The death of a process that the supervisor did not kill, from its `waitpid` status."""
        if not os.WIFSIGNALED(status):
            code = os.waitstatus_to_exitcode(status)
            return Death("exit", f"ended the process (exit code {code})", f"it ended with exit code {code}")
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name.removeprefix("SIG")
        except ValueError:
            name = str(number)
        if number in _CRASHES:
            return Death("crash", f"crashed the process (signal {name})", f"it crashed (signal {name})")
        reason = f"ran each of the {STRIKES} times that the process was killed (signal {name})"
        return Death("killed", reason, f"it was killed (signal {name})")


@dataclass(frozen=True)
class Verdict:
    """An operator that is to blame for a death. `stage` is its key; `function`: it ran users' functions then."""

    stage: str
    function: bool
    reason: str


class Verdicts:
    """The verdicts that no commit is known to contain yet.

    - `single_thread`: several operators ran at the last death, so that the next process runs one at a time until it
      answers: another death then has one possible cause
    - `last_death`: how the last process ended, as a sentence; empty if there was none
    """

    def __init__(self) -> None:
        self._pending: dict[Verdict, int | None] = {}
        self._strikes = 0
        self._suspects: set[int] = set()
        self.single_thread = False
        self.last_death = ""

    @property
    def pending(self) -> tuple[Verdict, ...]:
        return tuple(self._pending)

    def died(self, death: Death, running: Sequence[RunningStage]) -> None:
        """Finds the operators to blame: those known to be the cause, or the one that ran a user's function, or else the
        one whose unit ran. If the cause may lie elsewhere, only after `STRIKES` deaths."""
        before = len(self._pending)
        self._find_guilty(death, running)
        self.last_death = f"{death.text}; {BLAMED}" if len(self._pending) > before else death.text

    def _find_guilty(self, death: Death, running: Sequence[RunningStage]) -> None:
        functions = {each.stage for each in running if each.stage}
        suspects = functions or {each.unit for each in running if each.unit}
        if death.stages:
            self._convict(death.stages, death.function, death.reason)
        elif not suspects:
            self._strikes, self._suspects = 0, set()
        elif death.kind in ("killed", "memory"):
            self._strike(suspects, bool(functions), death.reason)
        elif len(suspects) == 1:
            self._convict(suspects, bool(functions), death.reason)
        else:
            self.single_thread = True

    def _strike(self, suspects: set[int], functions: bool, reason: str) -> None:
        both = self._suspects & suspects
        self._strikes = self._strikes + 1 if both else 1
        self._suspects = both or suspects
        if self._strikes < STRIKES:
            return
        if len(self._suspects) == 1:
            self._convict(self._suspects, functions, reason)
            self._strikes, self._suspects = 0, set()
        else:
            self.single_thread = True

    def _convict(self, stages: set[int] | frozenset[int], function: bool, reason: str) -> None:
        for stage in stages:
            self._pending[Verdict(f"{stage:016x}", function, reason)] = None

    def answered(self, epoch: int, after: int) -> None:
        """The network answered an epoch, in which all verdicts are applied; the last commit is `after`."""
        self._strikes, self._suspects, self.single_thread = 0, set(), False
        self._pending = {
            verdict: epoch if applied is None else applied
            for verdict, applied in self._pending.items()
            if applied is None or applied > after
        }
