"""What an experiment or a benchmark found: the one shape of result that `reproduce` and `bench` write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """One curve: a label and its points.

    Where a figure has several panels, `panel` says which one: it is the label of the panel's y axis.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    panel: str = ""

    @property
    def title(self) -> str:
        """The label, with the panel's if there is one: unique within a figure."""
        return f"{self.panel}: {self.label}" if self.panel else self.label


@dataclass(frozen=True)
class Outcome:
    """A claim, what the source says of it, what was measured (the same keys), and the rule that decides.

    `rule` gets (paper, measured) and is the only thing that decides `holds`. `axes` are the labels of x and y,
    with units, and `scales` their scales (`linear`, `log`), for the plot.
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

    @property
    def holds(self) -> bool:
        return bool(self.rule(self.paper, self.measured))

    def json(self) -> dict[str, Any]:
        """The object that programs read; its keys are fixed."""
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
