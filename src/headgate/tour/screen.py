"""Draws the tour as text: a screen that is redrawn in place on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log10
from typing import TextIO

from headgate.cli.live_view import duration, size

_BARS, _ASCII = " ▁▂▃▄▅▆▇█", " _.-=+*#@"
_AGES = (0.05, 20.0)
"""The lowest and the highest age (s) of the scale."""
_LINE_EVERY = 5.0
_MOST_WIDTH = 100


@dataclass
class SideView:
    """What the screen shows of a side. A list has a value for each second; None where there was no answer."""

    title: str
    doing: str = ""
    state: str = "waits"
    elapsed: float = 0.0
    seconds: float = 0.0
    rates: list[float] = field(default_factory=list)
    ages: dict[str, list[float | None]] = field(default_factory=dict)
    means: dict[str, float | None] = field(default_factory=dict)
    waiting: list[float] = field(default_factory=list)
    queued_bytes: int = 0


@dataclass
class TourView:
    """Everything that the screen shows."""

    plain: SideView
    headgate: SideView
    classes: Sequence[str]
    title: str = ""
    clock: float = 0.0
    page: str | None = None
    events: list[str] = field(default_factory=list)


def draw(view: TourView, width: int = 80, height: int = 24, plain_text: bool = False) -> list[str]:
    """The screen: at most `height` lines of at most `width` characters. `plain_text`: ASCII only."""
    width = min(width, _MOST_WIDTH)
    spark = max((width - 38) // 2, 4)
    minutes = f"{int(view.clock) // 60}:{int(view.clock) % 60:02d}"
    lines = [_ends(view.title, minutes, width), ""]
    for number, side in enumerate((view.plain, view.headgate), 1):
        lines.append(_ends(f"{number}  {side.title}: {side.doing}", _progress(side, plain_text), width))
    active = view.headgate if view.headgate.rates else view.plain
    rate = f"{active.rates[-1]:,.0f}" if active.rates else ""
    lines += ["", f"{'rows/s':10} {sparkline(active.rates, spark, plain_text)} {rate:>8}", ""]
    lines.append(f"{'age':10} {'plain':{spark}} {'mean':>8} {'Headgate':{spark}} {'mean':>8} {'faster':>7}")
    for cls in view.classes:
        one, two = view.plain.means.get(cls), view.headgate.means.get(cls)
        parts = [
            f"{sparkline(side.ages.get(cls, []), spark, plain_text, _AGES)} {_age(side.means.get(cls)):>8}"
            for side in (view.plain, view.headgate)
        ]
        times = f"{one / two:.0f}x" if one and two else ""
        lines.append(f"{cls[:10]:10} {' '.join(parts)} {times:>7}")
    waiting = view.headgate.waiting
    if waiting:
        now = f"{waiting[-1]:,.0f} rows, {size(view.headgate.queued_bytes)}"
        lines.append(f"{'waiting':10} {now:{spark + 9}} {sparkline(waiting, spark, plain_text)}")
    lines.append("")
    foot = [f"page: {view.page}"] if view.page else []
    room = max(height - len(lines) - len(foot), 1)
    lines += view.events[-room:] + foot
    return [_cut(line, width) for line in lines[:height]]


def sparkline(
    values: Sequence[float | None],
    width: int,
    plain_text: bool = False,
    logarithm: tuple[float, float] | None = None,
) -> str:
    """The newest `width` values as bars. `logarithm`: the lowest and the highest value of a logarithmic scale.

    >>> sparkline([0, 1, 2, 4], 6)
    ' ▂▄█  '
    >>> sparkline([0.1, None, 10.0], 3, plain_text=True, logarithm=(0.1, 10.0))
    '_ @'
    """
    signs = _ASCII if plain_text else _BARS
    shown = list(values)[-width:]
    most = max((value for value in shown if value is not None), default=0.0)
    text = ""
    for value in shown:
        if value is None or value <= 0 or most <= 0:
            text += signs[0]
        elif logarithm is not None:
            low, high = logarithm
            share = log10(max(value, low) / low) / log10(high / low)
            text += signs[1 + min(int(share * 7 + 0.5), 7)]
        else:
            text += signs[max(min(int(value / most * 8 + 0.5), 8), 1)]
    return text.ljust(width)


def line(view: TourView, side: SideView) -> str:
    """A side in one line."""
    parts = [f"{side.title} {side.elapsed:.0f} of {side.seconds:.0f} s"]
    if side.rates:
        parts.append(f"{side.rates[-1]:,.0f} rows/s")
    parts += [f"{cls} {_age(side.means.get(cls))}" for cls in view.classes]
    if side.waiting:
        parts.append(f"waiting {side.waiting[-1]:,.0f} rows")
    return " | ".join(parts)


class Screen:
    """Shows a view on a stream: redrawn in place on a terminal, otherwise a line every five seconds and each event."""

    def __init__(self, view: TourView, out: TextIO | None = None) -> None:
        self._view = view
        self._out = out or sys.stdout
        self.terminal = self._out.isatty()
        encoding = (getattr(self._out, "encoding", None) or "ascii").lower()
        self._plain_text = "utf" not in encoding
        self._drawn = 0
        self._events = 0
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Adds an event, as a line on the screen."""
        minutes = f"{int(self._view.clock) // 60}:{int(self._view.clock) % 60:02d}"
        self._view.events.append(f"{minutes}  {text}")
        self.show()

    def show(self, side: SideView | None = None) -> None:
        """Shows the view; `side` is the one that runs."""
        if self.terminal:
            self._redraw()
            return
        for event in self._view.events[self._events :]:
            self._write(event + "\n")
        self._events = len(self._view.events)
        if side is not None and time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self._write(line(self._view, side) + "\n")

    def close(self) -> None:
        """Shows the cursor again; what was drawn stays."""
        if self.terminal and self._drawn:
            self._write("\033[?25h")
            self._drawn = 0

    def _redraw(self) -> None:
        from shutil import get_terminal_size

        room = get_terminal_size((80, 24))
        # The last line of the terminal stays free for the cursor.
        lines = draw(self._view, room.columns, room.lines - 1, self._plain_text)
        before = f"\033[{self._drawn}A" if self._drawn else "\033[?25l"
        self._write(before + "".join(f"{line}\033[K\n" for line in lines) + "\033[J")
        self._drawn = len(lines)

    def _write(self, text: str) -> None:
        if self._plain_text:
            text = text.encode("ascii", "replace").decode()
        self._out.write(text)
        self._out.flush()


def _progress(side: SideView, plain_text: bool) -> str:
    if side.state != "runs":
        return side.state
    full, empty = ("#", ".") if plain_text else ("█", "░")
    done = int(10 * min(side.elapsed / side.seconds, 1.0)) if side.seconds else 0
    return f"{side.elapsed:.0f} of {side.seconds:.0f} s {full * done}{empty * (10 - done)}"


def _ends(left: str, right: str, width: int) -> str:
    room = max(width - len(right) - 1, 0)
    return f"{_cut(left, room):{room}} {right}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
