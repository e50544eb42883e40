"""How rows are cut into windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from headgate.graph.durations import short_duration
from headgate.graph.expressions import Expr
from headgate.graph.operators.operator import Clause, Write


@dataclass(frozen=True)
class Window(Clause):
    """How rows are cut into windows by event time or by count.

    time: `length` and `slide` (equal: tumbling) in microseconds with `offset`; session: `length` is the gap;
    rows: `length` rows, a new window each `slide` rows of the operator's input, in arrival order.
    """

    kind: OneOf["time", "session", "rows"]
    length: int
    slide: int = 0
    offset: int = 0
    on: Expr | None = None

    @property
    def text(self) -> str:
        on = self.on.text if self.on is not None else ""
        return f"{self.kind}({on}; {self.length}; {self.slide}; {self.offset})"

    def describe(self, write: Write, names: Sequence[str]) -> str:
        """The window in words, over columns of these names."""
        if self.kind == "rows":
            slide = f" every {self.slide}" if self.slide not in (0, self.length) else ""
            return f"windows of {self.length} rows{slide}"
        on = write(self.on, names) if self.on is not None else ""
        if self.kind == "session":
            return f"sessions of {on} with gap {short_duration(self.length)}"
        slide = f" every {short_duration(self.slide)}" if self.slide not in (0, self.length) else ""
        offset = f" from {short_duration(self.offset)}" if self.offset else ""
        return f"windows of {short_duration(self.length)}{slide}{offset} of {on}"
