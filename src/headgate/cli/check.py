"""`headgate check`: parses and validates a script, and counts its declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(script: Annotated[Path, typer.Argument(help="A file with SQL statements.", metavar="SCRIPT")]) -> None:
    """Parse and validate a script; the first error is reported as file:line:column: message, with exit code 1."""
    from headgate.cli.script import load

    catalog = load(script)
    counts = ((len(catalog.streams), "stream"), (len(catalog.tables), "table"), (len(catalog.queries), "query"))
    summary = ", ".join(_counted(count, word) for count, word in counts if count or word != "table")
    typer.echo(f"{script}: ok ({summary})")


def _counted(count: int, word: str) -> str:
    plural = "queries" if word == "query" else f"{word}s"
    return f"{count} {word if count == 1 else plural}"
