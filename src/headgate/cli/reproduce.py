"""`headgate reproduce`: reruns the papers' experiments and shows each claim beside what was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 150


@dataclass(frozen=True)
class Finding:
    """What came of one experiment: its outcome as JSON, or why it broke, and how long it took (s)."""

    name: str
    seconds: float
    outcome: dict[str, Any] | None = None
    failure: str = ""


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Which to rerun.", metavar="NAME…")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Rerun every one.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name them and stop.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Also write the outcomes here.", metavar="FILE")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Also draw the figures here.", metavar="DIR")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Where the random numbers start.", min=0)] = 1,
) -> None:
    """Rerun a paper's experiment and compare with what the paper reports."""
    from headgate import papers

    if list_:
        width = max(map(len, papers.EXPERIMENTS))
        for name, experiment in papers.EXPERIMENTS.items():
            typer.echo(f"{name:{width}}  {experiment.about}")
        return
    try:
        chosen = list(papers.EXPERIMENTS) if all_ else [papers.known(name) for name in dict.fromkeys(names or ())]
    except papers.UnknownExperiment as error:
        raise InputError(str(error)) from error
    if not chosen:
        raise typer.BadParameter("give a name, --all or --list", param_hint="NAME")
    _prepare(json_, plots)
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    findings = _rerun(chosen, seed, plots, console)
    done = [finding.outcome for finding in findings if finding.outcome is not None]
    if done:
        _show(console, done)
    if json_ is not None:
        json_.write_text(json.dumps(done, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"outcomes in {json_}", highlight=False)
    if plots is not None:
        console.print(f"figures in {plots}", highlight=False)
    broken = [f"{finding.name}: {finding.failure}" for finding in findings if finding.failure]
    if broken:
        raise RuntimeError("; ".join(broken))


def rerun(name: str, seed: int, plots: Path | None) -> Finding:
    """Reruns one experiment in this process; a failure is told, so that the others go on."""
    from headgate import papers
    from headgate.papers.plots import draw

    start = monotonic()
    try:
        outcome = papers.run(name, seed)
        if plots is not None:
            draw(outcome, plots)
        return Finding(name, monotonic() - start, outcome.json())
    except Exception as error:
        return Finding(name, monotonic() - start, failure=f"{type(error).__name__}: {error}")


def _prepare(json_: Path | None, plots: Path | None) -> None:
    """Refuses a place that cannot be written before minutes of work, not after."""
    for path, make in ((json_, Path.touch), (plots, lambda p: p.mkdir(parents=True, exist_ok=True))):
        if path is None:
            continue
        try:
            make(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"{path}: {reason}; give a path that can be written") from error


def _rerun(names: Sequence[str], seed: int, plots: Path | None, console: Console) -> list[Finding]:
    """Reruns the experiments side by side, one process a core, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    found: dict[str, Finding] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("rerunning", total=len(names))
        for finding in _findings(names, seed, plots):
            found[finding.name] = finding
            progress.advance(task)
            left = [name for name in names if name not in found]
            progress.update(task, description=f"rerunning {', '.join(left[:2])}" if left else "done")
            progress.console.print(_line(finding), highlight=False)
    return [found[name] for name in names]


def _findings(names: Sequence[str], seed: int, plots: Path | None) -> Iterator[Finding]:
    workers = min(len(names), os.cpu_count() or 1)
    if workers == 1:
        for name in names:
            yield rerun(name, seed, plots)
        return
    # Fresh processes: a fork would copy the locks of whatever threads this one has.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures: list[Future[Finding]] = [pool.submit(rerun, name, seed, plots) for name in names]
        for future in as_completed(futures):
            yield future.result()


def _line(finding: Finding) -> str:
    if finding.outcome is None:
        return f"[red]✗[/red] {finding.name}: broke after {finding.seconds:.1f} s"
    mark, word = ("[green]✓[/green]", "holds") if finding.outcome["holds"] else ("[red]✗[/red]", "does not hold")
    return f"{mark} {finding.name}: {word} ({finding.seconds:.1f} s)"


def _show(console: Console, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """One table: every claim, its figures in the paper and here, and whether it holds."""
    from rich.table import Table

    table = Table(show_lines=True)
    table.add_column("experiment", ratio=2, min_width=24)
    table.add_column("figure", no_wrap=True)
    table.add_column("paper", no_wrap=True, justify="right")
    table.add_column("measured", no_wrap=True, justify="right")
    table.add_column("holds", no_wrap=True)
    for outcome in outcomes:
        paper, measured = _flat(outcome["paper"]), _flat(outcome["measured"])
        keys = list({**paper, **measured})
        table.add_row(
            f"[bold]{outcome['name']}[/bold] ({outcome['source']})\n{outcome['claim']}",
            "\n".join(keys),
            "\n".join(_figure(paper.get(key)) for key in keys),
            "\n".join(_figure(measured.get(key)) for key in keys),
            "[green]yes[/green]" if outcome["holds"] else "[red]no[/red]",
        )
    console.print(table)


def _flat(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of figures in one level: `{"delay": {"fifo": 1}}` becomes `{"delay, fifo": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            flat.update({f"{key}, {inner}": found for inner, found in _flat(value).items()})
        else:
            flat[key] = value
    return flat


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return " ".join(_figure(part) for part in value)
    return str(value)
