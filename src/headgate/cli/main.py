"""The entry point of the `headgate` command: its subcommands, and how failures are reported.

Exit codes: 0 success; 1 error in the user's input (one line on standard error); 2 wrong usage; 3 internal error.
"""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from headgate.cli import bench, check, client, demo, explain, feed, reproduce, serve, simulate
from headgate.cli import run as run_command
from headgate.cli.failures import is_users_fault

app = typer.Typer(
    name="headgate",
    help="Hundreds of continuous SQL queries inside one Spark job, scheduled operator by operator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run_command.run)
app.command()(check.check)
app.command()(explain.explain)
app.command()(bench.bench)
app.command()(demo.demo)
app.command()(feed.feed)
app.command()(reproduce.reproduce)
app.command()(simulate.simulate)
app.command()(serve.serve)
for command in (
    client.status,
    client.queries,
    client.submit,
    client.stop,
    client.pause,
    client.resume,
    client.retry,
    client.policy,
    client.results,
):
    app.command(rich_help_panel="Commands that talk to a server")(command)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"headgate {version('headgate')}")
        raise typer.Exit()


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the Python traceback of a failure.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of all commands. `run` reads --debug itself, since it must be known before a command starts."""


def run(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments, prog_name="headgate")
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        fault = is_users_fault(error)
        line = " ".join(str(error).split()) or type(error).__name__
        if fault:
            print(line, file=sys.stderr)
        else:
            hint = "" if "--debug" in arguments else " (headgate --debug … shows the traceback)"
            print(f"headgate: internal error: {type(error).__name__}: {line}{hint}", file=sys.stderr)
        sys.exit(1 if fault else 3)


if __name__ == "__main__":
    run()
