"""Whether the specs of queries are met, by how much, and for which share of the time.

A spec is judged over a window: the latency at SPEC_PERCENTILE of the results that were published in the last
SPEC_WINDOW seconds, or the age of the oldest waiting row, if that is higher; the memory used at the last report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.graph.specs import SPEC_PERCENTILE, Spec


@dataclass(frozen=True)
class Measured:
    """The measurements of one query.

    - `latency`: seconds, at SPEC_PERCENTILE of the window's results; None if there are none
    - `oldest`: age in seconds of the oldest row that waits for it
    - `memory`: bytes of its waiting rows and its state; None if not reported yet
    - `shed`: share of its rows that were shed in the window
    """

    latency: float | None = None
    oldest: float = 0.0
    memory: float | None = None
    shed: float = 0.0


def judged(spec: Spec, measured: Measured) -> dict[str, Any]:
    """Compares each demand of a spec with the measurements; the result has plain values for JSON.

    A demand has the value `asked` for, the value `allowed` with the tolerance, the value `measured`, whether it is
    `met` (None: nothing to judge yet) and its `margin`: the share of the asked value that is left, below 0 if exceeded.
    """
    found: dict[str, Any] = {}
    if spec.latency is not None:
        waited = measured.oldest if measured.oldest > (measured.latency or 0.0) else measured.latency
        # Without results, waiting rows that are not late yet give no verdict.
        if measured.latency is None and measured.oldest <= (spec.longest or 0.0):
            waited = None
        found["latency"] = _demand(spec.latency / 1e6, spec.longest or 0.0, waited)
        found["latency"]["percentile"] = SPEC_PERCENTILE
    if spec.memory is not None:
        found["memory"] = _demand(spec.memory, spec.largest or 0.0, measured.memory)
    if spec.accuracy is not None:
        kept = 1 - measured.shed
        found["accuracy"] = {
            "asked": spec.accuracy,
            "allowed": spec.accuracy,
            "measured": kept,
            "met": kept >= spec.accuracy - 1e-9,
            "margin": kept - spec.accuracy,
        }
    verdicts = [demand["met"] for demand in found.values() if demand["met"] is not None]
    return {"met": all(verdicts) if verdicts else None, **found}


def _demand(asked: float, allowed: float, measured: float | None) -> dict[str, Any]:
    return {
        "asked": asked,
        "allowed": allowed,
        "measured": measured,
        "met": None if measured is None else measured <= allowed,
        "margin": None if measured is None else (asked - measured) / asked,
    }


class Compliance:
    """The share of time in which specs have been met. Used under the engine's lock.

    The time between two observations counts by the verdict of the later one. A changed spec starts from zero; the time
    in which a query is not observed, because it is paused, does not count.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Spec, float | None]] = {}
        self._times: dict[str, list[float]] = {}

    def observe(self, now: float, specs: Mapping[str, Spec], measured: Mapping[str, Measured]) -> dict[str, Any]:
        """Judges every query that has a spec; `share_met` is None until a second observation."""
        found: dict[str, Any] = {}
        for name, (spec, _) in self._seen.items():
            if name not in specs:
                self._seen[name] = (spec, None)
        for name, spec in specs.items():
            verdict = judged(spec, measured.get(name, Measured()))
            before = self._seen.get(name)
            if before is None or before[0] != spec:
                self.forget(name)
            elif verdict["met"] is not None and before[1] is not None:
                times = self._times.setdefault(name, [0.0, 0.0])
                times[not verdict["met"]] += now - before[1]
            self._seen[name] = (spec, now)
            met, missed = self._times.get(name, (0.0, 0.0))
            verdict["share_met"] = met / (met + missed) if met + missed else None
            found[name] = verdict
        return found

    def forget(self, name: str) -> None:
        """The query is dropped; another one may have its name."""
        self._seen.pop(name, None)
        self._times.pop(name, None)
