"""The entry of the `headgate` command: its subcommands, and what each kind of failure looks like to a user.

Exit codes: 0 done; 1 the user's input is wrong (one line on standard error); 2 wrong usage; 3 it broke.
"""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from headgate.cli import bench, check, demo, explain, reproduce, simulate
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
app.command()(reproduce.reproduce)
app.command()(simulate.simulate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {version('headgate')}")
        raise typer.Exit()


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="On failure, show the Python traceback.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Read by `run` itself, which must know --debug before any command has run."""


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
            hint = "" if "--debug" in arguments else " (headgate --debug … shows where)"
            print(f"headgate: it broke: {type(error).__name__}: {line}{hint}", file=sys.stderr)
        sys.exit(1 if fault else 3)


if __name__ == "__main__":
    run()
