"""Outcomes of experiments and benchmarks as text: one block for each, readable on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headgate.cli.output import figure

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 100
"""Width of a block on wider terminals: longer lines are hard to read."""
INDENT = 2

Leaf = tuple[int, str, Any, Any]
"""A line of a table: depth, label, the paper's figure and ours; both None in the heading of a group."""
Line = tuple[int, str]
"""A line of further figures: depth and text."""


def show_outcomes(console: Console, outcomes: Sequence[Mapping[str, Any]], theirs: str = "paper") -> None:
    """Prints every outcome: name, verdict, claim, the figures of the paper (or the goals: `theirs` names them) beside
    ours, then what else was measured."""
    for outcome in outcomes:
        _show(console, outcome, theirs)
    held = sum(bool(outcome["holds"]) for outcome in outcomes)
    console.print(f"{held} of {len(outcomes)} hold", highlight=False)


def _show(console: Console, outcome: Mapping[str, Any], theirs: str) -> None:
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    width = min(console.width, WIDEST)
    verdict = "[green]holds[/green]" if outcome["holds"] else "[red]does not hold[/red]"
    console.print(Rule(f"[bold]{outcome['name']}[/bold]: {verdict}", align="left"), width=width)
    console.print(Text(f"{outcome['claim']} ({outcome['source']})"), width=width)
    paper, ours = outcome["paper"], outcome["measured"]
    table = Table(box=None, width=width, pad_edge=False)
    table.add_column("", ratio=1)
    table.add_column(theirs, justify="right", max_width=width // 4)
    table.add_column("here", justify="right", max_width=width // 3)
    for depth, label, other, mine in leaves(paper, {key: ours[key] for key in paper if key in ours}):
        cells = ("", "") if isinstance(mine, Mapping) else (figure(other), figure(mine))
        table.add_row(Padding(Text(label), (0, 0, 0, INDENT * depth)), *cells)
    if paper:
        console.print(table, highlight=False)
    for depth, text in lines({key: value for key, value in ours.items() if key not in paper}):
        console.print(Padding(Text(text), (0, 0, 0, INDENT * depth)), width=width)
    console.print()


def leaves(paper: Mapping[str, Any], ours: Mapping[str, Any], depth: int = 0) -> Iterator[Leaf]:
    """The figures of both sides in order, groups before their members.

    >>> list(leaves({"delay": {"fifo": 1}}, {"delay": {"fifo": 2, "rr": 3}}))
    [(0, 'delay', None, {'fifo': 2, 'rr': 3}), (1, 'fifo', 1, 2), (1, 'rr', None, 3)]
    """
    for key in dict.fromkeys([*paper, *ours]):
        there, here = paper.get(key), ours.get(key)
        if isinstance(here, Mapping) or isinstance(there, Mapping):
            group = here if isinstance(here, Mapping) else {}
            yield depth, key, None, group
            yield from leaves(there if isinstance(there, Mapping) else {}, group, depth + 1)
        else:
            yield depth, key, there, here


def lines(figures: Mapping[str, Any], depth: int = 0) -> Iterator[Line]:
    """Figures as text; a group that has no groups in it is one line.

    >>> list(lines({"delay": {"fifo": 2, "rr": 3.5}, "runs": 4}))
    [(0, 'delay: fifo 2, rr 3.5'), (0, 'runs: 4')]
    """
    for key, value in figures.items():
        if not isinstance(value, Mapping):
            yield depth, f"{key}: {figure(value)}"
        elif any(isinstance(inner, Mapping) for inner in value.values()):
            yield depth, f"{key}:"
            yield from lines(value, depth + 1)
        else:
            yield depth, f"{key}: " + ", ".join(f"{name} {figure(inner)}" for name, inner in value.items())
