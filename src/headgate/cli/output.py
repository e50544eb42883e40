"""Output that several commands share: the console, figures as text, and files named on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.cli.failures import InputError, reason

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 150
"""Width of tables where there is no terminal."""


def console() -> Console:
    """A console on standard output, wide enough for tables if that is not a terminal."""
    from rich.console import Console

    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=WIDTH)


def figure(value: Any) -> str:
    """A figure of an outcome as text.

    >>> figure(0.123456), figure(54321.0), figure(True), figure([1.0, None])
    ('0.1235', '54,321', 'yes', '1 –')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return " ".join(figure(part) for part in value)
    return str(value)


def check_writable(path: Path | None, create: Callable[[Path], object] = Path.touch) -> None:
    """Creates an output file (or folder, with `create`), so that a wrong path is reported before the work starts."""
    if path is None:
        return
    try:
        create(path)
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}; give a path that can be written") from error


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
