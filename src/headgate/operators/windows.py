"""Which windows of time a row is in: the arithmetic of tumbling and hopping windows, in microseconds."""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.expressions import Call, Expr
from headgate.graph.operators import Window
from headgate.operators.batch import FOREVER, NEVER

Ints = npt.NDArray[np.int64]


class Panes:
    """Cuts time into panes of gcd(length, slide): every window is a whole number of panes, every row is in one pane.

    A pane is named by its number, which counts from the window's offset.

    >>> panes = Panes(Window("time", length=10, slide=4))
    >>> panes.size, panes.last_start(np.array([9, 10])).tolist(), panes.most
    (2, [8, 8], 3)
    """

    def __init__(self, window: Window) -> None:
        self.length = window.length
        self.slide = window.slide or window.length
        self.offset = window.offset
        self.size = gcd(self.length, self.slide)
        self.most = -(-self.length // self.slide)

    def number(self, times: Ints) -> Ints:
        """The pane of each time."""
        return (times - self.offset) // self.size

    def start(self, panes: Ints) -> Ints:
        """Where each pane begins."""
        return panes * self.size + self.offset

    def last_start(self, times: Ints) -> Ints:
        """The start of the last window that each time is in."""
        return times - (times - self.offset) % self.slide

    def grid_below(self, time: int) -> int:
        """The latest end of a window that is before a time."""
        return time - 1 - (time - 1 - self.offset - self.length) % self.slide

    def ended_before(self, watermark: int) -> int:
        """Rows before this time are only in windows that ended at or before a watermark."""
        return self.grid_below(watermark + 1) - self.length + self.slide

    def first_end(self, panes: Ints) -> Ints:
        """The end of the first window that each pane is in."""
        after = self.start(panes) + self.size
        return after + (self.length + self.offset - after) % self.slide

    def last_end(self, panes: Ints) -> Ints:
        """The end of the last window that each pane is in."""
        return self.last_start(self.start(panes)) + self.length

    def repeated(self, times: Ints) -> tuple[Ints, Ints]:
        """Each time once per window it is in: (position in `times`, start of the window), early windows first."""
        last = self.last_start(times)
        count = (self.length - 1 - (times - last)) // self.slide + 1
        return self.windows_of(last, count)

    def windows_of(self, last: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Repeats each position `count` times, with the starts of that many windows up to `last`."""
        positions = np.repeat(np.arange(len(last)), count)
        ends = np.cumsum(count)
        back = ends[positions] - 1 - np.arange(len(positions))
        return positions, last[positions] - back * self.slide


def microseconds(times: pa.Array) -> tuple[Ints, pa.Array | None]:
    """Event times as integers, and which of them are not null (None: all); a null's integer is 0."""
    ints = times.cast(pa.int64()) if not pa.types.is_int64(times.type) else times
    if not ints.null_count:
        return ints.to_numpy(zero_copy_only=False), None
    return pc.fill_null(ints, 0).to_numpy(zero_copy_only=False), pc.is_valid(ints)


def times_or_end(times: pa.Array) -> Ints:
    """Event times as integers. That of a null is FOREVER: such a row is never late, and complete at the end."""
    ints, valid = microseconds(times)
    return ints if valid is None else np.where(valid.to_numpy(zero_copy_only=False), ints, FOREVER)


def late_before(time: Expr, watermark: int) -> int:
    """Rows with event times before this are late, as Spark counts: an instant at the watermark is late already.

    The last moment of a window is late if the window ended at or before the watermark.
    """
    if watermark == NEVER or (isinstance(time, Call) and time.name == "window_time"):
        return watermark
    return watermark + 1


def window_column(start: Ints, end: Ints, type_: pa.DataType) -> pa.StructArray:
    """Windows as the struct column that a query sees."""
    parts = [
        pa.array(values, pa.int64()).cast(part.type) for values, part in zip((start, end), list(type_), strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(type_))


def highest(times: pa.Array) -> int | None:
    """The highest event time of a column; None if all are null."""
    top = pc.max(times.cast(pa.int64())).as_py()
    return None if top is None else int(top)
