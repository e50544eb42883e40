"""The commands that talk to a server: status, queries, submit, stop, pause, resume, retry, policy, results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from headgate.server.client import Client

Url = Annotated[str, typer.Option("--url", envvar="HEADGATE_URL", help="The address of the server.")]
Token = Annotated[str | None, typer.Option("--token", envvar="HEADGATE_TOKEN", help="The token of the server.")]
TokenFile = Annotated[str | None, typer.Option("--token-file", help="A file that holds the token.")]
Name = Annotated[str, typer.Argument(help="The name of a query.")]
_URL = "http://127.0.0.1:8642"


def _client(url: str, token: str | None, token_file: str | None) -> Client:
    from headgate.server.access import given_token
    from headgate.server.client import Client

    return Client(url, given_token(None if token_file else token, token_file))


def status(url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """Show the status of a server: its state, policy, queries and classes."""
    from headgate.cli.live_view import line

    client = _client(url, token, token_file)
    found = client.status()
    typer.echo(f"{url}: {found['state']}, {found['queries']} queries, policy {found['policy']}")
    if found["error"]:
        typer.echo(found["error"])
    for lost in found["not_restored"]:
        typer.echo(f"{lost['statement']} is not restored: {lost['error']}")
    if found["state"] == "running":
        typer.echo(line(client.metrics()))


def queries(url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """List the queries of a server."""
    from rich.table import Table

    from headgate.cli.live_view import duration
    from headgate.cli.output import console

    table = Table(box=None, pad_edge=False)
    for column in ("query", "class", "state", "results", "p50", "p99", "waiting"):
        table.add_column(column, justify="right" if column in ("results", "p50", "p99", "waiting") else "left")
    failed: list[str] = []
    known = _client(url, token, token_file).queries.values()
    for query in sorted(known, key=lambda each: (-each["priority"], each["name"])):
        latency = query.get("latency", {"p50": 0.0, "p99": 0.0})
        figures = f"{query.get('published', 0):,}", duration(latency["p50"]), duration(latency["p99"])
        table.add_row(query["name"], query["class"], query["state"], *figures, f"{query.get('queue_rows', 0):,}")
        failed += [f"{query['name']}: {query['error']}"] if query["error"] else []
    console().print(table)
    for error in failed:
        typer.echo(error)


def submit(
    script: Annotated[Path | None, typer.Argument(help="A script of SQL statements; - reads standard input.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", "-e", help="SQL statements, instead of a script.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only validate the statements.")] = False,
    url: Url = _URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Register streams and queries on a server: all statements or none."""
    from headgate.cli.script import read

    if (script is None) == (sql is None):
        raise InputError("give a script, or statements with --sql")
    text, file = sql or "", "--sql"
    if script is not None:
        text, file = (sys.stdin.read(), "-") if str(script) == "-" else (read(script), str(script))
    client = _client(url, token, token_file)
    done = client.check(text, file) if check else client.execute(text, file)
    for each in done:
        typer.echo(f"{each['kind']} {each['name']} {'is correct' if check else each['done']}")


def stop(name: Name, url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """Stop a query of a server and drop its state."""
    _client(url, token, token_file).drop(name)


def pause(name: Name, url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """Pause a query of a server; the rows that arrive meanwhile wait."""
    _client(url, token, token_file).pause(name)


def resume(name: Name, url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """Resume a paused query."""
    _client(url, token, token_file).resume(name)


def retry(name: Name, url: Url = _URL, token: Token = None, token_file: TokenFile = None) -> None:
    """Restart a failed query."""
    _client(url, token, token_file).retry(name)


def policy(
    name: Annotated[str | None, typer.Argument(help="The new policy; default: show the current one.")] = None,
    url: Url = _URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Show or change the policy of a server."""
    client = _client(url, token, token_file)
    if name is not None:
        client.policy = name
    typer.echo(client.policy)


def results(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then print every new row, until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Newest rows to print at first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    url: Url = _URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Print the newest results of a query."""
    from headgate.server.rows import json_rows

    client = _client(url, token, token_file)
    # Opened before the newest rows are read, so that no row in between is missed.
    new = client.rows(client.declared(name)["name"]) if follow else iter(())
    if limit:
        known = json_rows(client.results(name, limit))
        for row in known:
            _print_row(row, as_json)
    try:
        for row in new:
            _print_row(row, as_json)
    except KeyboardInterrupt:
        return


def _print_row(row: dict[str, Any], as_json: bool) -> None:
    try:
        if as_json:
            print(json.dumps(row, ensure_ascii=False), flush=True)
        else:
            print("  ".join(f"{name}={_shown(value)}" for name, value in row.items()), flush=True)
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe.
        sys.stderr.close()
        raise typer.Exit() from None


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
