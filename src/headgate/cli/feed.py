"""`headgate feed`: sends generated or recorded rows to folders or Kafka topics at the times of an arrival process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from headgate.feeder import Feed, Feeder, Progress, Target
    from headgate.simulation.arrivals import ArrivalBlocks

_PLAIN_EVERY = 5.0
_LINE_EVERY = 0.5
_KAFKA = "kafka://"


def feed(
    name: Annotated[
        str | None,
        typer.Argument(help="sensors, auctions, packets or readings; not with --replay.", metavar="WORKLOAD"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="A folder, or kafka://HOST:PORT[/PREFIX]: topics are named PREFIX and stream."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Rows per second, of all streams together.")] = 1000.0,
    arrivals: Annotated[str, typer.Option("--arrivals", help="poisson, bursty or periodic.")] = "poisson",
    phases: Annotated[
        str,
        typer.Option("--phases", help="Custom bursts, repeated, for each stream.", metavar="ROWS@RATE,…"),
    ] = "",
    changes: Annotated[
        str,
        typer.Option("--changes", help="Change the rate at these seconds.", metavar="SECOND=RATE,…"),
    ] = "",
    interactive: Annotated[
        bool,
        typer.Option("--interactive", "-i", help="Read new rates from standard input: RATE, or STREAM RATE."),
    ] = False,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="Default: until Ctrl-C.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same rows and times.")] = 0,
    every: Annotated[float, typer.Option("--every", min=1, help="Milliseconds between two batches of a stream.")] = 100,
    format_: Annotated[str, typer.Option("--format", help="The format of files: parquet, json or csv.")] = "parquet",
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Send a recorded file instead of a workload.", metavar="FILE")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="With --replay: 10 is ten times as fast as recorded.")] = 1.0,
    stream: Annotated[str | None, typer.Option("--stream", help="With --replay; default: the file's name.")] = None,
    time_column: Annotated[
        str | None, typer.Option("--time-column", help="With --replay; default: the first timestamp.")
    ] = None,
    restamp: Annotated[
        bool, typer.Option("--restamp", help="With --replay: set the time column to the time of sending.")
    ] = False,
    declare: Annotated[
        bool, typer.Option("--declare", help="Only print the CREATE STREAM statements of the streams.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Send rows to folders or Kafka topics, one per stream, and report whether the schedule is kept."""
    from headgate import feeder

    if to is None:
        raise typer.BadParameter("give a folder or kafka://HOST:PORT", param_hint="--to")
    if (name is None) == (replay is None):
        raise typer.BadParameter(f"give one of {', '.join(feeder.WORKLOADS)}, or --replay FILE", param_hint="WORKLOAD")
    if replay is not None:
        feeds = [feeder.replay(replay, stream=stream, time_column=time_column, speed=speed, restamp=restamp)]
    else:
        feeds = feeder.workload(name or "", rate, _phases(phases) if phases else arrivals, seed)
    planned = _changes(changes)
    if declare:
        _declare(feeds, to, format_)
        return
    sender = feeder.Feeder(
        _target(to, format_, name),
        feeds,
        seed=seed,
        every=every / 1000,
        seconds=float("inf") if seconds is None else seconds,
    )
    sender.start()
    try:
        _follow(sender, sum(each.arrivals.rate for each in feeds), planned, interactive, quiet)
    except KeyboardInterrupt:
        pass
    finally:
        sender.stop()
    if not quiet:
        _summary(sender.progress())


def _target(to: str, format_: str, name: str | None) -> Target:
    from headgate.feeder import WORKLOADS, FolderTarget, KafkaTarget

    if to.startswith(_KAFKA):
        servers, _, prefix = to.removeprefix(_KAFKA).partition("/")
        if not servers:
            raise InputError(f"--to {to}: no broker is given; write kafka://HOST:PORT")
        return KafkaTarget(servers, prefix, dict(WORKLOADS[name].keys) if name is not None else None)
    return FolderTarget(to, format_)


def _declare(feeds: list[Feed], to: str, format_: str) -> None:
    for feed in feeds:
        if to.startswith(_KAFKA):
            servers, _, prefix = to.removeprefix(_KAFKA).partition("/")
            options = {
                "subscribe": prefix + feed.stream,
                "kafka.bootstrap.servers": servers,
                "value_format": "json",
            }
            typer.echo(feed.declaration("kafka", options))
        else:
            typer.echo(feed.declaration(format_, {"path": f"{to}/{feed.stream}"}))


def _follow(sender: Feeder, initial: float, planned: list[tuple[float, float]], interactive: bool, quiet: bool) -> None:
    """Shows the progress and changes rates until all rows are sent."""
    if interactive:
        threading.Thread(target=_read_rates, args=(sender, initial), name="headgate-rates", daemon=True).start()
    terminal = sys.stdout.isatty()
    began = shown = time.monotonic()
    while not sender.wait(_LINE_EVERY if not planned else 0.05):
        now = time.monotonic()
        while planned and now - began >= planned[0][0]:
            sender.set_speed(planned.pop(0)[1] / initial)
        if not quiet and now - shown >= (_LINE_EVERY if terminal else _PLAIN_EVERY):
            shown = now
            typer.echo(f"\r{_line(sender.progress())}\033[K" if terminal else _line(sender.progress()), nl=not terminal)
    if terminal and not quiet:
        typer.echo("\r\033[K", nl=False)


def _read_rates(sender: Feeder, initial: float) -> None:
    from headgate.feeder import FeedError

    for line in sys.stdin:
        words = line.split()
        try:
            if len(words) == 1:
                sender.set_speed(float(words[0]) / initial)
            elif len(words) == 2:
                sender.set_rate(words[0], float(words[1]))
            elif words:
                raise ValueError("too many words")
        except FeedError as error:
            typer.echo(str(error), err=True)
        except ValueError:
            typer.echo(f"'{line.strip()}' is not a rate; write RATE, or STREAM RATE", err=True)


def _line(progress: Progress) -> str:
    mean = progress.rows / progress.seconds if progress.seconds else 0.0
    return (
        f"{progress.seconds:.0f} s, {progress.rows:,} rows, {mean:,.0f} rows/s,"
        f" lag {progress.lag * 1000:.0f} ms (at most {progress.worst_lag * 1000:.0f} ms)"
    )


def _summary(progress: Progress) -> None:
    typer.echo(_line(progress))
    for stream, part in progress.streams.items():
        typer.echo(f"  {stream}: {part.rows:,} rows, lag at most {part.worst_lag * 1000:.0f} ms")


def _phases(text: str) -> Callable[[float], ArrivalBlocks]:
    """Parses `ROWS@RATE,…`; returns the factory of arrival processes, which are the same for all streams."""
    from headgate.feeder import Bursts

    try:
        pairs = [(float(rows), float(rate)) for rows, rate in (part.split("@") for part in text.split(","))]
    except ValueError:
        raise InputError(f"--phases {text}: write ROWS@RATE, for example 10000@50000,20000@250") from None
    return lambda rate: Bursts(pairs, poisson=True, repeat=True)


def _changes(text: str) -> list[tuple[float, float]]:
    if not text:
        return []
    try:
        pairs = [(float(second), float(rate)) for second, rate in (part.split("=") for part in text.split(","))]
    except ValueError:
        raise InputError(f"--changes {text}: write SECOND=RATE, for example 10=5000,20=500") from None
    if any(rate < 0 for _, rate in pairs):
        raise InputError(f"--changes {text}: a rate is negative; give rows per second, 0 or more")
    return sorted(pairs)
