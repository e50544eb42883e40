"""The outcome of an experiment or benchmark, as `reproduce` and `bench` write it, and common rules for `holds`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """One curve: a label and its points.

    In a figure with several panels, `panel` is the label of the y axis of the curve's panel.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    panel: str = ""

    @property
    def title(self) -> str:
        """The label, prefixed by the panel if there is one: unique within a figure."""
        return f"{self.panel}: {self.label}" if self.panel else self.label


@dataclass(frozen=True)
class Mark:
    """A moment on the x axis that a plot marks: something that happened, or something that was `decided`."""

    x: float
    text: str
    decided: bool = False


@dataclass(frozen=True)
class Outcome:
    """A claim, the figures of its source or goal (`paper`), the measured figures, and the rule that compares them.

    `measured` has the keys of `paper` and may have more. `rule(paper, measured)` alone decides `holds`. `axes` (the
    labels of x and y, with units) and `scales` (`linear`, `log`) are for the plot.
    """

    name: str
    source: str
    claim: str
    paper: Figures
    measured: Figures
    rule: Callable[[Figures, Figures], bool]
    setup: Figures
    series: Sequence[Series] = field(default_factory=tuple)
    axes: tuple[str, str] = ("", "")
    scales: tuple[str, str] = ("linear", "linear")
    marks: Sequence[Mark] = field(default_factory=tuple)

    @property
    def holds(self) -> bool:
        return bool(self.rule(self.paper, self.measured))

    def json(self) -> dict[str, Any]:
        """The JSON object, for programs: its keys are fixed."""
        return {
            "name": self.name,
            "source": self.source,
            "claim": self.claim,
            "paper": dict(self.paper),
            "measured": dict(self.measured),
            "holds": self.holds,
            "series": [{"label": s.title, "x": list(s.x), "y": list(s.y)} for s in self.series],
            "setup": dict(self.setup),
        }


def at_most(paper: Figures, measured: Figures) -> bool:
    """Whether every figure of the paper or goal is an upper bound of the measured one."""
    return all(measured[key] <= paper[key] for key in paper)


def at_least(paper: Figures, measured: Figures) -> bool:
    """Whether every figure of the paper or goal is a lower bound of the measured one."""
    return all(measured[key] >= paper[key] for key in paper)


def same(paper: Figures, measured: Figures) -> bool:
    """Whether every figure of the paper is the measured one."""
    return all(measured[key] == paper[key] for key in paper)
