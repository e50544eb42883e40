"""Rows with their hopping windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.graph.event_times import EventTime, EventTimes
from headgate.graph.expressions import Column, Expr
from headgate.graph.operators.operator import Unary, Write
from headgate.graph.operators.window import Window


@dataclass(frozen=True, eq=False)
class Expand(Unary):
    """Repeats each row once per hopping window it is in; appends the window as a struct column."""

    window: Window

    makes_rows: ClassVar[bool] = True
    strict: ClassVar[bool] = False

    def below(self, column: int) -> Expr | None:
        return Column(self.schema[column].type, column) if self.origins(column) else None

    def obstacle(self, number: int | None) -> str | None:
        return None if number is not None else "it depends on a window"

    @property
    def uses_event_time(self) -> bool:
        return True

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        return {**inputs[0], len(self.input.schema): EventTime(True, self.window.length)}

    @property
    def detail(self) -> str:
        return self.window.text

    def describe(self, write: Write) -> str:
        return f"into {self.window.describe(write, self.input.schema.names)}"
