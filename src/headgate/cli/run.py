"""`headgate run`: runs a script on Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failures import InputError
from headgate.cli.interrupts import interrupts
from headgate.cli.script import read
from headgate.cli.serve import check_installed

if TYPE_CHECKING:
    from headgate.engine import Engine

_PLAIN_EVERY = 5.0
_SCREEN_EVERY = 0.5
_STOP_PATIENCE = 4.0
"""Seconds that a start, or the end of the last epoch, may take once a stop is requested."""


def run(
    script: Annotated[Path, typer.Argument(help="A script of SQL statements.")],
    once: Annotated[
        bool,
        typer.Option("--once", help="Read the rows available now, end the streams, emit every window, exit."),
    ] = False,
    policy: Annotated[str, typer.Option("--policy", help="The policy that schedules the operators.")] = "cqc",
    master: Annotated[str | None, typer.Option("--master", help="The Spark master; default: local[*].")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Folder or URI for the state; default: the state is not kept.")
    ] = None,
    lane_log: Annotated[
        str | None,
        typer.Option("--lane-log", help="Folder for Spark's log of what it has read; default: in the checkpoint."),
    ] = None,
    budget: Annotated[
        float,
        typer.Option("--budget", min=1, help="Milliseconds that an epoch may spend; remaining rows wait."),
    ] = 1000,
    every: Annotated[
        float,
        typer.Option("--every", min=0, help="Milliseconds between polls of the sources; 0: as the pace allows."),
    ] = 0,
    trigger_cores: Annotated[
        float,
        typer.Option("--trigger-cores", min=0, help="Cores for triggers without a latency spec; 0: no limit."),
    ] = 0.5,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", min=1, help="Copies of the network; default: 1, on a cluster one per core."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads that run operators; default: set by the policy.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing while it runs.")] = False,
    page: Annotated[bool, typer.Option("--page", help="Show the queries on a local web page.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port of --page; 0: any.")] = 8642,
) -> None:
    """Runs the queries of a script until Ctrl-C, or with --once until all available rows are processed."""
    from headgate.engine import Engine
    from headgate.spark.checkpoint import Checkpoint

    if page:
        check_installed()
    text = read(script)
    # From here on there are child processes, which an interrupt must not leave behind.
    with interrupts("ending as soon as Spark has started") as stop:
        engine = Engine(
            policy,
            checkpoint,
            master=master,
            budget=budget / 1000,
            every=every / 1000,
            trigger_cores=trigger_cores or None,
            threads=threads,
            replicas=replicas,
            lane_log=lane_log,
        )
        try:
            engine.execute(text, file=str(script))
            if not engine.queries:
                raise InputError(f"{script}: the script has no query; add CREATE QUERY name AS SELECT …")
            if checkpoint is not None:
                # A checkpoint that cannot be used is reported at once, not after Spark has started.
                Checkpoint(checkpoint).probe()
            engine.spark  # noqa: B018
            stop.install("finishing the epoch")
            if stop.requested.is_set():
                return
            with _page(engine, checkpoint, port) if page else nullcontext():
                if once:
                    _once(engine, stop.requested, quiet)
                else:
                    _until_stopped(engine, stop.requested, quiet)
        finally:
            engine.stop()
    if not quiet:
        _summary(engine, checkpoint)


@contextmanager
def _page(engine: Engine, checkpoint: str | None, port: int) -> Iterator[None]:
    """Serves the page of an engine that `run` starts and stops. Queries registered there end with the run."""
    from headgate.server.assembly import Address, allowed, server

    service, http = server(engine, Address(port=port), allowed((), checkpoint=checkpoint), None)
    http.start()
    service.attach()
    typer.echo(f"headgate: {http.url}")
    try:
        yield
    finally:
        http.stop()
        service.stop()


class _Background:
    """Work on a thread of its own, so that this one can react to Ctrl-C."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._failure: BaseException | None = None
        # A daemon: work that waits for a cluster that gives nothing must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def done(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after some seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises the error that ended it."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error


def _once(engine: Engine, stop_requested: threading.Event, quiet: bool) -> None:
    work = _Background(engine.run_once, "headgate-once")
    reported = False
    with _view(engine, quiet) as show:
        while not work.done(_SCREEN_EVERY):
            reported = reported or _report_resumption(engine, quiet)
            show()
            if stop_requested.is_set():
                engine.interrupt()
                work.done(_STOP_PATIENCE)
                return
        if not reported:
            # It had ended before the first look, for example on a complete checkpoint.
            _report_resumption(engine, quiet)
    work.check()


def _until_stopped(engine: Engine, stop_requested: threading.Event, quiet: bool) -> None:
    start = _Background(engine.start, "headgate-start")
    while not start.done(_SCREEN_EVERY / 10):
        if stop_requested.is_set():
            # Stopping Spark ends what it waits for, for example executors that a cluster does not give.
            if not start.done(_STOP_PATIENCE):
                return
            break
    start.check()
    _report_resumption(engine, quiet)
    with _view(engine, quiet) as show:
        while not stop_requested.is_set():
            if engine.wait(_SCREEN_EVERY):
                return
            show()


def _report_resumption(engine: Engine, quiet: bool) -> bool:
    if engine.resumption is None:
        return False
    if not quiet:
        for line in engine.resumption.lines():
            typer.echo(f"headgate: {line}")
    return True


class _Show:
    """Shows the metrics on a terminal, or prints a line every few seconds; call it repeatedly."""

    def __init__(self, engine: Engine, quiet: bool) -> None:
        from rich.console import Console

        self._engine = engine
        self._quiet = quiet
        self._console = Console()
        self._live = None
        self._last = time.monotonic()
        if self._console.is_terminal and not quiet:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def __call__(self) -> None:
        from headgate.cli import live_view

        metrics = self._engine.metrics()
        if self._live is not None:
            self._live.update(live_view.screen(metrics, self._console.height), refresh=True)
        elif not self._quiet and time.monotonic() - self._last >= _PLAIN_EVERY:
            self._last = time.monotonic()
            typer.echo(live_view.line(metrics))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


@contextmanager
def _view(engine: Engine, quiet: bool) -> Iterator[_Show]:
    show = _Show(engine, quiet)
    try:
        yield show
    finally:
        show.close()


def _summary(engine: Engine, checkpoint: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from headgate.cli.live_view import duration
    from headgate.spark.checkpoint import Checkpoint
    from headgate.spark.storage import without_secrets

    metrics = engine.metrics()
    table = Table(title=f"{metrics['epochs']:,} epochs under {metrics['policy']}", title_justify="left")
    for column in ("class", "query", "results", "p50", "p99", "late", "state"):
        table.add_column(column, justify="right" if column in ("results", "p50", "p99", "late") else "left")
    for name, query in metrics["queries"].items():
        latency = query["latency"]
        table.add_row(
            query["class"],
            name,
            f"{query['published']:,}",
            duration(latency["p50"]),
            duration(latency["p99"]),
            f"{query.get('late', 0):,}",
            query["error"] or query["state"],
        )
    Console().print(table)
    for stream, count in metrics["dead_letters"].items():
        rows = "1 malformed row" if count == 1 else f"{count:,} malformed rows"
        typer.echo(f"headgate: {rows} of stream {stream} in {engine.dead_letters}")
    if checkpoint is not None:
        commit = Checkpoint(checkpoint).newest()
        then = "the same command continues from there"
        if commit is not None and commit.complete:
            then = "it is complete: give another folder to start over"
        typer.echo(f"headgate: the state is in {without_secrets(checkpoint)}; {then}")
