"""`headgate bench`: runs benchmarks and shows the measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failures import InputError
from headgate.cli.interrupts import unwound
from headgate.cli.outcome_text import show_outcomes
from headgate.cli.output import check_writable, console, write_json

if TYPE_CHECKING:
    from headgate.outcome import Outcome


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="The benchmarks to run.", metavar="NAME…")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Run all.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the outcomes to a file.", metavar="FILE")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Plot the figures here.", metavar="DIR")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change an option of the benchmark, for example a time.", metavar="OPTION=VALUE"),
    ] = None,
) -> None:
    """Run benchmarks, most of them against a peer measured in the same run."""
    from headgate import bench as registry

    if list_:
        width = max(map(len, registry.BENCHES))
        for name, about in registry.BENCHES.items():
            typer.echo(f"{name:{width}}  {about}")
        return
    chosen = list(registry.BENCHES) if all_ else list(names or ())
    if not chosen:
        raise typer.BadParameter("give a name, --all or --list", param_hint="NAME")
    options = dict(_option(text) for text in set_ or ())
    check_writable(json_)
    check_writable(plots, lambda folder: folder.mkdir(parents=True, exist_ok=True))
    outcomes: list[Outcome] = []
    with unwound():
        for name in chosen:
            try:
                outcomes += registry.run(name, options)
            except registry.UnknownBench as error:
                raise InputError(str(error)) from error
    show_outcomes(console(), [outcome.json() for outcome in outcomes], "goal")
    if plots is not None:
        from headgate.papers.plots import draw

        for outcome in outcomes:
            draw(outcome, plots)
    if json_ is not None:
        write_json(json_, [outcome.json() for outcome in outcomes])


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text} has no value; write OPTION=VALUE", param_hint="--set")
    return name.strip(), value.strip()
