"""Draws line charts as SVG, so that the report of the tour needs no library and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 120, 16, 44


@dataclass(frozen=True)
class Curve:
    """A line of a chart. `name` is also its CSS class; a `dashed` one is drawn with gaps."""

    label: str
    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


@dataclass(frozen=True)
class ChartMark:
    """A vertical line at x with a label at its right or `left` side, or a band if `end` is given."""

    x: float
    label: str
    end: float | None = None
    left: bool = False


def chart(
    title: str, unit: str, curves: Sequence[Curve], seconds: float, marks: Sequence[ChartMark] = (), log: bool = False
) -> str:
    """A chart over `seconds`; `log`: a logarithmic y axis. Curves without points are left out."""
    shown = [curve for curve in curves if len(curve.x)]
    values = [value for curve in shown for value in curve.y if value > 0 or not log]
    scale = _Scale(values, log)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}" class="chart">',
        f"<title>{escape(title)}</title>",
    ]
    parts += [_mark(mark, seconds) for mark in marks]
    for value in scale.ticks:
        y = scale.place(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{_figure(value)}</text>')
    step = _step(seconds, 8)
    for number in range(int(seconds / step + 1e-9) + 1):
        x = _x(number * step, seconds)
        parts.append(
            f'<text class="tick middle" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}">{_figure(number * step)}</text>'
        )
    bottom = _HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text class="tick middle" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}">seconds</text>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<text class="tick middle" transform="translate(14 {middle}) rotate(-90)">{escape(unit)}</text>')
    parts += [_line(curve, seconds, scale) for curve in shown]
    parts += _labels(shown, scale)
    parts.append("</svg>")
    return "\n".join(parts)


class _Scale:
    """The y axis."""

    def __init__(self, values: Sequence[float], log: bool) -> None:
        self._log = log
        if log:
            low, high = min(values, default=0.1), max(values, default=1.0)
            self._low, self._high = floor(log10(low)), max(ceil(log10(high)), floor(log10(low)) + 1)
            self.ticks = [10.0**power for power in range(self._low, self._high + 1)]
        else:
            step = _step(max(max(values, default=1.0), 1e-9), 5)
            count = max(ceil(max(values, default=1.0) / step), 1)
            self._low, self._high = 0, count
            self._unit = step
            self.ticks = [step * number for number in range(count + 1)]

    def place(self, value: float) -> float:
        where = log10(max(value, 10.0**self._low)) if self._log else value / self._unit
        share = (where - self._low) / (self._high - self._low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _x(second: float, seconds: float) -> float:
    return _LEFT + second / seconds * (_WIDTH - _LEFT - _RIGHT)


def _line(curve: Curve, seconds: float, scale: _Scale) -> str:
    points = " ".join(f"{_x(x, seconds):.1f},{scale.place(y):.1f}" for x, y in zip(curve.x, curve.y, strict=True))
    dashed = " dashed" if curve.dashed else ""
    return (
        f'<polyline class="line {curve.name}{dashed}" points="{points}"><title>{escape(curve.label)}</title></polyline>'
    )


def _labels(curves: Sequence[Curve], scale: _Scale) -> list[str]:
    """The name of each curve beside its end, moved apart where they would overlap."""
    wanted = sorted((scale.place(curve.y[-1]) + 4, curve.label, curve.name) for curve in curves)
    parts: list[str] = []
    last = 0.0
    for y, label, name in wanted:
        last = max(y, last + 14, _TOP + 4)
        parts.append(f'<text class="label {name}" x="{_WIDTH - _RIGHT + 6}" y="{last:.1f}">{escape(label)}</text>')
    return parts


def _mark(mark: ChartMark, seconds: float) -> str:
    x = _x(mark.x, seconds)
    bottom = _HEIGHT - _BOTTOM
    if mark.end is not None:
        width = _x(mark.end, seconds) - x
        return (
            f'<rect class="band" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{bottom - _TOP}"/>'
            f'<text class="tick middle" x="{x + width / 2:.1f}" y="{_TOP - 4}">{escape(mark.label)}</text>'
        )
    side, place = ("tick end", x - 4) if mark.left else ("tick", x + 4)
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        f'<text class="{side}" x="{place:.1f}" y="{_TOP + 10}">{escape(mark.label)}</text>'
    )


def _step(most: float, parts: int) -> float:
    """A round step of which about `parts` cover the axis.

    >>> _step(30, 8), _step(0.9, 5), _step(12000, 5)
    (5.0, 0.2, 5000.0)
    """
    rough = most / parts
    power = 10.0 ** floor(log10(rough))
    return float(next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough - 1e-12))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:g}"
