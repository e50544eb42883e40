"""`headgate bench`: runs comparisons with peers and shows what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from headgate.outcome import Outcome


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Which to run.", metavar="NAME…")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Run every one.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name them and stop.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Also write the outcomes here.", metavar="FILE")] = None,
) -> None:
    """Compare with a peer, both sides measured in one run."""
    from headgate import bench as registry

    if list_:
        for name, about in registry.BENCHES.items():
            typer.echo(f"{name}  {about}")
        return
    chosen = list(registry.BENCHES) if all_ else list(names or ())
    if not chosen:
        raise typer.BadParameter("give a name, --all or --list", param_hint="NAME")
    outcomes: list[Outcome] = []
    for name in chosen:
        try:
            outcomes += registry.run(name)
        except registry.UnknownBench as error:
            raise InputError(str(error)) from error
    show(outcomes)
    if json_ is not None:
        write(json_, outcomes)


def show(outcomes: Sequence[Outcome]) -> None:
    """The outcomes as a table: each figure asked for beside the one measured."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for outcome in outcomes:
        console.print(f"[bold]{outcome.name}[/bold]: {outcome.claim} ({outcome.source})", highlight=False)
        table = Table()
        table.add_column("figure")
        table.add_column("asked", justify="right")
        table.add_column("measured", justify="right")
        for key in {**outcome.paper, **outcome.measured}:
            table.add_row(key, _figure(outcome.paper.get(key)), _figure(outcome.measured.get(key)))
        console.print(table)
        console.print("[green]holds[/green]\n" if outcome.holds else "[red]does not hold[/red]\n")


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """The outcomes as JSON, one object a name."""
    objects: list[dict[str, Any]] = [outcome.json() for outcome in outcomes]
    try:
        path.write_text(json.dumps(objects, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: {(error.strerror or str(error)).lower()}; give a path that can be written"
        ) from error


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return str(value)
