"""`headgate demo`: the tour. The same rows under plain Structured Streaming and under Headgate, and a report."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.interrupts import unwound

if TYPE_CHECKING:
    from headgate.engine import Engine

_REPORT = "headgate-tour.html"


def demo(
    seconds: Annotated[int, typer.Option("--seconds", min=10, help="Duration of both sides together.")] = 50,
    report: Annotated[
        Path | None, typer.Option("--report", help=f"The report with the plots; default: {_REPORT}.", metavar="FILE")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Rows come from Kafka, on a broker that it starts.")] = False,
) -> None:
    """Run 21 queries as plain Structured Streaming, then the same rows with Headgate, and compare."""
    from headgate.tour.places import NoBroker, tour_places
    from headgate.tour.report import html
    from headgate.tour.run import Tour
    from headgate.tour.screen import Screen, SideView, TourView

    path = _writable(report)
    cores = os.cpu_count()
    title = f"Headgate tour: 21 queries over sensors in a forest, {cores} cores"
    view = TourView(
        SideView("plain Structured Streaming"), SideView("Headgate"), ("critical", "dashboard", "report"), title
    )
    screen = Screen(view)
    opened = not no_browser and screen.terminal and _has_browser()
    if not screen.terminal:
        typer.echo(title)
    try:
        with unwound(), tour_places(kafka) as places:
            outcome = Tour(screen, view, seconds / 2, lambda engine: _page(engine, opened), places).run()
        screen.show()
    except NoBroker as problem:
        typer.echo(f"headgate: the tour over Kafka is skipped: {problem}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\nheadgate: stopped before the end; there is no comparison", err=True)
        raise typer.Exit(130) from None
    finally:
        screen.close()
    path.write_text(html(outcome), encoding="utf-8")
    for line in outcome.summary():
        typer.echo(line)
    typer.echo(f"- The report with the plots: {path}")
    typer.echo("\nNext: write a script and run it with headgate run SCRIPT; see README.md and examples/.")
    if opened:
        _open(path.resolve().as_uri())


def _writable(report: Path | None) -> Path:
    """The path of the report; in a temporary folder if no path is given and the working folder is not writable."""
    from headgate.cli.output import check_writable

    if report is not None:
        check_writable(report)
        return report
    folder = Path() if os.access(".", os.W_OK) else Path(tempfile.mkdtemp(prefix="headgate-"))
    return folder / _REPORT


@contextmanager
def _page(engine: Engine, opened: bool) -> Iterator[str]:
    """Serves the page of the engine on a free port of this machine; yields its address."""
    from headgate.server.assembly import Address, allowed, server

    service, http = server(engine, Address(port=0), allowed(()), None)
    http.start()
    service.attach()
    if opened:
        _open(http.url)
    try:
        yield http.url
    finally:
        http.stop()
        service.stop()


def _has_browser() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
