"""`headgate serve`: an engine that runs until it is stopped, with an HTTP API and a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.failures import InputError
from headgate.cli.interrupts import interrupts

INSTALL = "the server needs two more packages: pip install 'headgate[server]'"
_CHECKPOINT = "headgate-server"


def check_installed() -> None:
    """InputError if the packages of the server are not installed."""
    from importlib.util import find_spec

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise InputError(INSTALL)


def serve(
    script: Annotated[
        Path | None, typer.Argument(help="Statements to execute at the first start.", metavar="[SCRIPT]")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any that is free.")] = 8642,
    token: Annotated[
        str | None, typer.Option("--token", envvar="HEADGATE_TOKEN", help="The token that clients must send.")
    ] = None,
    token_file: Annotated[str | None, typer.Option("--token-file", help="A file that holds the token.")] = None,
    policy: Annotated[str, typer.Option("--policy", help="The policy that schedules the operators.")] = "cqc",
    master: Annotated[str | None, typer.Option("--master", help="The Spark master; default: local[*].")] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Folder or URI for the state and the registered statements.")
    ] = _CHECKPOINT,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", min=1, help="Copies of the network; default: 1, on a cluster one per core."),
    ] = None,
    allow_path: Annotated[
        list[str] | None,
        typer.Option("--allow-path", help="Folder that statements may use; default: the working directory."),
    ] = None,
    allow_function: Annotated[
        list[str] | None,
        typer.Option("--allow-function", help="Module whose functions statements may call; default: none."),
    ] = None,
    allow_format: Annotated[
        list[str] | None, typer.Option("--allow-format", help="A further format of sources and sinks.")
    ] = None,
    allow_option: Annotated[
        list[str] | None, typer.Option("--allow-option", help="A further option of sources and sinks: kafka.*")
    ] = None,
    max_queries: Annotated[int, typer.Option("--max-queries", min=1, help="Maximum number of queries.")] = 1000,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Maximum number of rows in a response.")] = 10_000,
) -> None:
    """Serve an engine over HTTP: register, follow and stop queries from a page, the command line or Python."""
    check_installed()
    from headgate.cli.script import read
    from headgate.engine import Engine
    from headgate.server.assembly import Address, allowed, server
    from headgate.server.service import ServerLimits

    text = None if script is None else read(script)
    address = Address(host, port, token, token_file)
    # Everything that the user may have to correct is checked before Spark starts.
    address.access()
    may = allowed(
        allow_path or (), allow_function or (), allow_format or (), allow_option or (), checkpoint, token_file
    )
    # From here on there are child processes, which an interrupt must not leave behind.
    with interrupts("ending") as stop:
        engine = Engine(policy, checkpoint, master=master, replicas=replicas)
        service, http = server(engine, address, may, checkpoint, ServerLimits(queries=max_queries, rows=max_rows))
        try:
            if text is not None:
                service.begin_with(text, str(script))
            http.start()
            service.start()
            typer.echo(f"headgate: {http.url}")
            typer.echo(f"headgate: what is registered is kept in {checkpoint}; Ctrl-C ends the server")
            while not stop.requested.wait(0.5):
                pass
        finally:
            http.stop()
            service.stop()
            engine.stop()
