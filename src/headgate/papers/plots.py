"""Plots the series of an outcome in the form of the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from headgate.outcome import Mark, Outcome, Series

FEW = 25
# Distinguishable by colour-blind readers (Okabe and Ito); the last two are for more than eight curves.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800", "#7F7F7F", "#8C564B")
HAPPENED, DECIDED = "#7F7F7F", "#CC79A7"
MARKERS = "osD^vPX*<>"
# Different dashes keep coinciding curves visible.
STYLES = ("-", (0, (5, 2)), "-.")


def draw(outcome: Outcome, folder: Path) -> Path | None:
    """Writes `<name>.png` into the folder and returns its path; None if the outcome has no series."""
    if not outcome.series:
        return None
    # The object interface instead of pyplot needs no display and has no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(series.panel for series in outcome.series))
    figure = Figure(figsize=(9, 2.2 + 3.2 * len(panels)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(len(panels), 1, place)
        _panel(axes, [s for s in outcome.series if s.panel == panel])
        axes.set_xscale(outcome.scales[0])
        axes.set_yscale(outcome.scales[1])
        values = [y for s in outcome.series if s.panel == panel for y in s.y]
        # From zero, unless all curves lie in the upper half.
        if outcome.scales[1] == "linear" and 0 <= min(values) < max(values) / 2:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(outcome.axes[0])
        axes.set_ylabel(panel or outcome.axes[1])
        axes.grid(alpha=0.3)
        for mark in outcome.marks:
            axes.axvline(mark.x, color=DECIDED if mark.decided else HAPPENED, linewidth=0.9, alpha=0.8)
        if place == 1:
            _name_marks(axes, outcome.marks)
        axes.legend(loc="best", fontsize="small")
    verdict = "holds" if outcome.holds else "does not hold"
    title = f"{outcome.name} ({outcome.source})\n{fill(outcome.claim, 95)}: {verdict}"
    figure.suptitle(title, fontsize="medium")
    path = folder / f"{outcome.name}.png"
    figure.savefig(path)
    return path


def _name_marks(axes: object, marks: Sequence[Mark]) -> None:
    """Labels events above the first panel; decisions are lines in a separate colour, named in the legend."""
    for mark in marks:
        if not mark.decided:
            axes.annotate(  # type: ignore[attr-defined]
                mark.text,
                (mark.x, 1.02),
                xycoords=("data", "axes fraction"),
                rotation=25,
                fontsize="x-small",
                color=HAPPENED,
            )
    for label, colour, decided in (("it happens", HAPPENED, False), ("decision", DECIDED, True)):
        if any(mark.decided == decided for mark in marks):
            axes.plot([], [], color=colour, linewidth=0.9, label=label)  # type: ignore[attr-defined]


def _panel(axes: object, series: Sequence[Series]) -> None:
    for place, curve in enumerate(series):
        few = len(curve.x) <= FEW
        axes.plot(  # type: ignore[attr-defined]
            list(curve.x),
            list(curve.y),
            label=curve.label,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)] if few else None,
            linestyle=STYLES[place % len(STYLES)],
            markersize=4,
            linewidth=1.4,
        )
