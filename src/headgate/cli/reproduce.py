"""`headgate reproduce`: runs the experiments of the papers and compares them with the published figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.failures import InputError
from headgate.cli.outcome_text import show_outcomes
from headgate.cli.output import check_writable, write_json

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Finding:
    """The result of one experiment: its outcome as JSON or the reason for its failure, and its duration (s)."""

    name: str
    seed: int
    seconds: float
    outcome: dict[str, Any] | None = None
    failure: str = ""


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="The experiments to run.", metavar="NAME…")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Run all.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the outcomes to a file.", metavar="FILE")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Plot the figures here.", metavar="DIR")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random numbers.", min=0)] = 1,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Several seeds: a table of verdicts.", metavar="N,N,…")
    ] = None,
) -> None:
    """Run experiments of the papers and compare with the published figures."""
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
    check_writable(json_)
    check_writable(plots, lambda folder: folder.mkdir(parents=True, exist_ok=True))
    console = output.console()
    numbers = [seed] if seeds is None else _numbers(seeds)
    findings = _run_all([(name, number) for number in numbers for name in chosen], plots, console)
    done = [finding.outcome for finding in findings if finding.outcome is not None]
    if done and seeds is None:
        show_outcomes(console, done)
    elif done:
        _show_verdicts(console, chosen, numbers, findings)
    if json_ is not None:
        write_json(json_, done)
        console.print(f"outcomes written to {json_}", highlight=False)
    if plots is not None:
        console.print(f"figures written to {plots}", highlight=False)
    failures = [f"{finding.name} (seed {finding.seed}): {finding.failure}" for finding in findings if finding.failure]
    if failures:
        raise RuntimeError("; ".join(failures))


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [-1]
    if min(found) < 0 or len(set(found)) < len(found):
        raise typer.BadParameter("give different whole numbers, as in 1,2,3", param_hint="--seeds")
    return found


def run_one(name: str, seed: int, plots: Path | None) -> Finding:
    """Runs one experiment in this process; a failure is returned, so that the others continue."""
    from headgate import papers
    from headgate.papers.plots import draw

    start = monotonic()
    try:
        outcome = papers.run(name, seed)
        if plots is not None:
            draw(outcome, plots)
        return Finding(name, seed, monotonic() - start, outcome.json())
    except Exception as error:
        return Finding(name, seed, monotonic() - start, failure=f"{type(error).__name__}: {error}")


Task = tuple[str, int]
"""The name of an experiment and a seed."""


def _run_all(tasks: Sequence[Task], plots: Path | None, console: Console) -> list[Finding]:
    """Runs the experiments, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    findings: dict[Task, Finding] = {}
    several = len({seed for _, seed in tasks}) > 1
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("running", total=len(tasks))
        for finding in _findings(tasks, plots):
            findings[finding.name, finding.seed] = finding
            progress.advance(task)
            left = [name for name, seed in tasks if (name, seed) not in findings]
            progress.update(task, description=f"running {', '.join(left[:2])}" if left else "done")
            progress.console.print(_line(finding, several), highlight=False)
    return [findings[each] for each in tasks]


def _findings(tasks: Sequence[Task], plots: Path | None) -> Iterator[Finding]:
    """Runs experiments in parallel, one process per core; then those that measure wall-clock time, one by one.

    Experiments that share runs are run by the same process.
    """
    from headgate import papers

    alone = [task for task in tasks if papers.EXPERIMENTS[task[0]].wall_clock]
    groups = [
        [(name, seed) for name in names]
        for seed in dict.fromkeys(seed for _, seed in tasks)
        for names in papers.together([name for name, of in tasks if of == seed and (name, of) not in alone])
    ]
    workers = min(len(groups), os.cpu_count() or 1)
    if workers > 1:
        # Spawned processes: a fork would copy locks held by other threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            futures: list[Future[list[Finding]]] = [pool.submit(run_group, group, plots) for group in groups]
            for future in as_completed(futures):
                yield from future.result()
        groups = []
    for name, seed in (*(task for group in groups for task in group), *alone):
        yield run_one(name, seed, plots)


def run_group(tasks: Sequence[Task], plots: Path | None) -> list[Finding]:
    """Runs experiments one after another in this process."""
    return [run_one(name, seed, plots) for name, seed in tasks]


def _line(finding: Finding, several: bool) -> str:
    name = f"{finding.name}, seed {finding.seed}" if several else finding.name
    if finding.outcome is None:
        return f"[red]✗[/red] {name}: failed after {finding.seconds:.1f} s"
    symbol, verdict = ("[green]✓[/green]", "holds") if finding.outcome["holds"] else ("[red]✗[/red]", "does not hold")
    return f"{symbol} {name}: {verdict} ({finding.seconds:.1f} s)"


def _show_verdicts(console: Console, names: Sequence[str], seeds: Sequence[int], findings: Sequence[Finding]) -> None:
    """Prints the verdicts, a row for each experiment and a column for each seed."""
    from rich.table import Table

    verdicts = {(f.name, f.seed): None if f.outcome is None else bool(f.outcome["holds"]) for f in findings}
    words = {True: "[green]yes[/green]", False: "[red]no[/red]", None: "failed"}
    table = Table(title="holds, by seed")
    table.add_column("experiment", no_wrap=True)
    for seed in seeds:
        table.add_column(str(seed), no_wrap=True)
    table.add_column("same", no_wrap=True)
    for name in names:
        row = [verdicts[name, seed] for seed in seeds]
        table.add_row(name, *(words[verdict] for verdict in row), "yes" if len(set(row)) == 1 else "no")
    console.print(table)
