"""Plots the predictions of `headgate simulate`: latency by class and memory over time, one colour per policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from headgate.simulation import SimulationResult

# Above this ratio of the peaks a log scale is used: on a linear one the smaller curves would lie on the axis.
LOG_RATIO = 20.0
# Distinguishable by colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")


def draw(results: Mapping[str, SimulationResult], path: Path) -> None:
    """Writes the figure; the extension of the file determines the format."""
    # The object interface instead of pyplot needs no display and has no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1)
    _latency(above, results)
    _memory(below, results)
    try:
        figure.savefig(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _latency(axes: Axes, results: Mapping[str, SimulationResult]) -> None:
    classes = [cls.name for cls in next(iter(results.values())).topology.classes]
    width = 0.8 / len(results)
    for number, (text, result) in enumerate(results.items()):
        latencies = [result.latency(cls=cls) for cls in classes]
        places = [place + (number - (len(results) - 1) / 2) * width for place in range(len(classes))]
        means = [latency.mean * 1000 for latency in latencies]
        colour = COLOURS[number % len(COLOURS)]
        axes.bar(places, means, width * 0.9, color=colour, label=text)
        p99 = [latency.percentile(99) * 1000 for latency in latencies]
        axes.plot(places, p99, linestyle="none", marker="_", markersize=12, markeredgewidth=2, color=colour)
    axes.set_yscale("log")
    some = next(iter(results.values()))
    empty = {cls: "" if some.latency(cls=cls).count else "\n(no result)" for cls in classes}
    axes.set_xticks(range(len(classes)), [f"class {cls}{empty[cls]}" for cls in classes])
    axes.set_xlim(-0.5, len(classes) - 0.5)
    axes.set_ylabel("latency of results (ms)")
    axes.set_title("Latency by class: mean (bar) and 99th percentile (dash)", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")


def _memory(axes: Axes, results: Mapping[str, SimulationResult]) -> None:
    curves = {text: result.queue_series() for text, result in results.items()}
    peaks = [float(size.max()) for _, _, size in curves.values()]
    log = max(peaks) > LOG_RATIO * min(peaks)
    # A log axis has no zero: an empty queue is drawn as one byte.
    floor = 1e-3 if log else 0.0
    for number, (text, (times, _, size)) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(times, (size / 1000).clip(min=floor), color=colour, linewidth=1.2, label=text)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("memory of the queues (kB)")
    axes.set_title("Memory of queued rows", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
