"""`headgate check`: parses and validates a script, and says what it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(script: Annotated[Path, typer.Argument(help="A file of SQL statements.", metavar="SCRIPT")]) -> None:
    """Parse and validate a script; exit 1 with file:line:column: message at its first problem."""
    from headgate.cli.script import load

    catalog = load(script)
    counts = ((len(catalog.streams), "stream"), (len(catalog.tables), "table"), (len(catalog.queries), "query"))
    told = ", ".join(_counted(count, word) for count, word in counts if count or word != "table")
    typer.echo(f"{script}: ok ({told})")


def _counted(count: int, word: str) -> str:
    plural = "queries" if word == "query" else f"{word}s"
    return f"{count} {word if count == 1 else plural}"
