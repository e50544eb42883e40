"""Why a network's process died, and which operator is to blame: its queries fail, and all others continue."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

from headgate.spark.fitness import CLOSED, SCARCE, UNFIT
from headgate.spark.flight_record import RunningStage
from headgate.spark.messages import BLAMED
from headgate.spark.tolls import FATAL

STRIKES = 3
"""An operator that ran at this many deaths in a row, without an answer between them, is to blame even if the process
was killed from outside (the system may have run out of memory)."""

LEAST_TOLL = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 10)
"""Descriptors and threads, at least, that the calls of a stage have taken if it is to blame for an unfit process."""

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


@dataclass(frozen=True)
class Death:
    """Why a process ended: `reason` continues a sentence about what ran, `text` is a sentence about the process.

    `stages` are those known to be the cause: over their time, running while memory grew, or with a large state
    (`function` is then False). The kind is "unfit" if the process could not work any more, or lost its supervisor:
    what did that may have ended long before. To blame is then who took `least_toll` or more;
    `inside`: if it happens again and again, who took most, as the cause can only be in the process itself.
    """

    kind: Literal["time", "memory", "exit", "crash", "killed", "unfit"]
    reason: str
    text: str
    stages: frozenset[int] = frozenset()
    function: bool = True
    least_toll: int = FATAL
    inside: bool = False

    @staticmethod
    def of(status: int) -> Death:
        """The death of a process that the supervisor did not kill, from its `waitpid` status."""
        if not os.WIFSIGNALED(status):
            code = os.waitstatus_to_exitcode(status)
            if code == UNFIT:
                return Death.unfit(CLOSED)
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

    @staticmethod
    def unfit(why: str) -> Death:
        """The death of a process that could not work any more."""
        return Death(
            "unfit",
            f"left its process unable to work ({why})",
            f"it could not work any more ({why})",
            least_toll=LEAST_TOLL if why in SCARCE else FATAL,
            inside=why == os.strerror(errno.EMFILE),
        )

    @staticmethod
    def with_supervisor() -> Death:
        """The death of a process whose supervisor was killed."""
        return Death("unfit", "killed the supervisor of its process", "its supervisor was killed")


@dataclass(frozen=True)
class Verdict:
    """An operator that is to blame for a death. `stage` is its key; `function`: it ran users' functions then."""

    stage: str
    function: bool
    reason: str


class Verdicts:
    """The verdicts that no commit is known to contain yet.

    - `single_thread`: it is not known which operator caused the last death, so that the next process runs one at a time
      until it answers: another death then has one possible cause
    - `measured`: a process has been unfit, so that all later ones measure what each function takes (`tolls.py`)
    - `last_death`: how the last process ended, as a sentence; empty if there was none
    """

    def __init__(self) -> None:
        self._pending: dict[Verdict, int | None] = {}
        self._strikes = 0
        self._suspects: set[int] = set()
        self._unfit = 0
        self.single_thread = False
        self.measured = False
        self.last_death = ""

    @property
    def pending(self) -> tuple[Verdict, ...]:
        return tuple(self._pending)

    @staticmethod
    def of(data: bytes) -> Verdicts:
        """Those that an earlier supervisor has left (see `state`); none if it has left nothing that can be read."""
        found = Verdicts()
        try:
            state = json.loads(data)
            found._pending = {Verdict(*each): applied for each, applied in state["pending"]}
            found._strikes, found._suspects = state["strikes"], set(state["suspects"])
            found._unfit, found.measured = state["unfit"], state["measured"]
            found.single_thread, found.last_death = state["single_thread"], state["last_death"]
        except (ValueError, KeyError, TypeError):
            return Verdicts()
        return found

    @property
    def state(self) -> bytes:
        """All of it, for the next supervisor."""
        state: dict[str, Any] = {
            "pending": [[astuple(verdict), applied] for verdict, applied in self._pending.items()],
            "strikes": self._strikes,
            "suspects": sorted(self._suspects),
            "unfit": self._unfit,
            "measured": self.measured,
            "single_thread": self.single_thread,
            "last_death": self.last_death,
        }
        return json.dumps(state).encode()

    def died(self, death: Death, running: Sequence[RunningStage], tolls: Mapping[int, int] | None = None) -> None:
        """Finds the operators to blame: those known to be the cause, or the one that ran a user's function, or else the
        one whose unit ran. If the cause may lie elsewhere, only after `STRIKES` deaths. Of an unfit process, the one
        with the highest toll."""
        before = len(self._pending)
        self._find_guilty(death, running, tolls or {})
        self.last_death = f"{death.text}; {BLAMED}" if len(self._pending) > before else death.text

    def _find_guilty(self, death: Death, running: Sequence[RunningStage], tolls: Mapping[int, int]) -> None:
        functions = {each.stage for each in running if each.stage}
        suspects = functions or {each.unit for each in running if each.unit}
        if death.stages:
            self._convict(death.stages, death.function, death.reason)
        elif death.kind == "unfit":
            self._find_harmful(death, suspects, bool(functions), tolls)
        elif not suspects:
            self._strikes, self._suspects = 0, set()
        elif death.kind in ("killed", "memory"):
            self._strike(suspects, bool(functions), death.reason)
        elif len(suspects) == 1:
            self._convict(suspects, bool(functions), death.reason)
        else:
            self.single_thread = True

    def _find_harmful(self, death: Death, suspects: set[int], functions: bool, tolls: Mapping[int, int]) -> None:
        """Convicts the stage that took most of a process that was measured, or else has the next one measured. If none
        took much, and it happens again and again without an answer: the one that took most, or that ran each time."""
        self._unfit += 1
        self.measured = True
        again = death.inside and self._unfit >= STRIKES
        worst = max(tolls, key=lambda stage: tolls[stage], default=0)
        if tolls.get(worst, 0) >= (1 if again else death.least_toll):
            self._convict({worst}, True, death.reason)
            self._unfit = 0
        else:
            self._strike(suspects, functions, death.reason)
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
        self._strikes, self._suspects, self._unfit, self.single_thread = 0, set(), 0, False
        self._pending = {
            verdict: epoch if applied is None else applied
            for verdict, applied in self._pending.items()
            if applied is None or applied > after
        }
