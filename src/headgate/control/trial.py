"""Steps of the run-time optimizer on trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.control.prediction import Course
from headgate.control.setting import Setting, Step
from headgate.scheduling.decisions import Decision


@dataclass
class Trial:
    """Steps on trial, taken at a time; none: the optimizer waits for the backlog to be processed.

    - `before`: the setting without them; `excess`: the total excess before them, `peak`: the highest since then
    - `expected`, `otherwise`: the predicted courses with and without them
    - `limits`: the excess that each demand may have; `met`: the time after which all demands are predicted to be met
    - `work`: what the streams bring (see `prediction.work`)
    - `undo`: a step was undone because it is no longer needed
    - `doubted`: since when the measured course has not been the expected one
    - `helped`: the steps have been seen to help
    """

    at: float
    steps: tuple[Step, ...]
    before: Setting
    excess: float
    expected: Course
    otherwise: Course
    limits: Mapping[str, float]
    met: float
    work: float
    undo: bool = False
    decisions: list[Decision] = field(default_factory=list)
    peak: float = 0.0
    doubted: float | None = None
    helped: bool = False
