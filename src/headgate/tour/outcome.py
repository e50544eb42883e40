"""The figures of a tour, all measured in that run, and the table that compares both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from headgate.cli.live_view import duration, size
from headgate.tour.answers import Age
from headgate.tour.plan import Timeline


@dataclass(frozen=True)
class SideOutcome:
    """The measurements of one side. Curves are (seconds, values); `ages` and `curves` are by class."""

    title: str
    rows: int
    lag: float
    ages: dict[str, Age]
    curves: dict[str, tuple[list[float], list[float]]]
    failures: dict[str, str]
    moments: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class TourOutcome:
    """The outcome of both sides, the timeline, and class critical during the bursts under each policy of Headgate."""

    timeline: Timeline
    plain: SideOutcome
    headgate: SideOutcome
    policies: tuple[str, str]
    bursts: tuple[Age, Age]
    queries: int
    peak_bytes: int
    limit_bytes: int
    spilled_bytes: int
    about: dict[str, str]
    events: list[str]

    def times_faster(self, cls: str) -> float | None:
        """Mean age of plain's answers divided by that of Headgate's."""
        one, two = self.plain.ages[cls].mean, self.headgate.ages[cls].mean
        return one / two if one is not None and two else None

    def table(self) -> list[list[str]]:
        """A header row, then a row for each class."""
        rows = [["class", "plain mean", "p99", "answers", "Headgate mean", "p99", "answers", "times faster"]]
        for cls, plain in self.plain.ages.items():
            ours, faster = self.headgate.ages[cls], self.times_faster(cls)
            more = "> " if _late(plain) and not _late(ours) else ""
            rows.append([cls, *_cells(plain), *_cells(ours), f"{more}{faster:.1f}" if faster is not None else "-"])
        return rows

    def notes(self) -> list[str]:
        """What else was measured, in sentences."""
        one, two = self.bursts
        peak = f"At most {size(self.peak_bytes)} waited in Headgate's queues (limit {size(self.limit_bytes)}"
        spilled = f"; {size(self.spilled_bytes)} spilled to files" if self.spilled_bytes else "; nothing was spilled"
        notes = [
            f"Both sides got the same {self.plain.rows:,} rows, at the same times (lag at most"
            f" {max(self.plain.lag, self.headgate.lag) * 1000:.0f} ms).",
            f"{peak}{spilled}).",
        ]
        if one.mean is not None and two.mean is not None:
            notes.append(
                f"Class critical during the bursts: {duration(one.mean)} under {self.policies[0]},"
                f" {duration(two.mean)} after the change to {self.policies[1]}, while it ran."
            )
        for name, error in self.headgate.failures.items():
            others = self.queries - len(self.headgate.failures)
            notes.append(f"Kept apart: query {name} failed ({error}); the other {others} went on.")
        for side in (self.plain, self.headgate):
            for cls, age in side.ages.items():
                if _late(age):
                    owed = age.overdue / (age.count + age.overdue)
                    notes.append(
                        f"{side.title} still owed {owed:.0%} of the answers of class {cls} when it was stopped. They"
                        " count with the age that they had reached: the true figures are higher (>)."
                    )
        return notes

    def summary(self) -> list[str]:
        """The table and the notes as lines of at most 80 characters."""
        # The names of the columns take two lines.
        above = ["", "plain", "", "", "Headgate", "", "", "times"]
        names = ["class", "mean", "p99", "answers", "mean", "p99", "answers", "faster"]
        lines = text_table([above, names, *self.table()[1:]])
        lines[1], lines[2] = lines[2], lines[1]
        title = ["", "Age of answers: from when a row can be read until its answer can be read", ""]
        notes = [wrap(note, 79, initial_indent="- ", subsequent_indent="  ") for note in self.notes()]
        return [*title, *(line.rstrip() for line in lines), "", *(line for note in notes for line in note)]


def _cells(age: Age) -> list[str]:
    if age.mean is None or age.p99 is None:
        return ["-", "-", "0"]
    more = "> " if _late(age) else ""
    return [more + duration(age.mean), more + duration(age.p99), f"{age.count:,}"]


def _late(age: Age) -> bool:
    """Whether more than 1% of the answers are overdue, so that the mean is only a lower bound."""
    return age.overdue > 0.01 * (age.count + age.overdue)


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines: the first column is left-aligned, the others are right-aligned.

    >>> text_table([["class", "mean"], ["critical", "1 s"]])
    ['class     mean', '--------  ----', 'critical   1 s']
    """
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if place == 0 else cell.rjust(w)
            for place, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [lines[0].rstrip(), "  ".join("-" * width for width in widths), *lines[1:]]
