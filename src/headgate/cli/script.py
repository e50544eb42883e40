"""Reads a script of SQL statements into a catalog."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.failures import InputError, reason

if TYPE_CHECKING:
    from headgate.sql import Catalog


def read(script: Path) -> str:
    """The text of a script; raises InputError if it cannot be read. Makes modules in its folder importable."""
    _importable(script.absolute().parent)
    try:
        return script.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except OSError as error:
        raise InputError(f"{script}: {reason(error)}; give the path of a .sql file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{script}: byte {error.start} is not UTF-8; save the script as UTF-8") from error


def load(script: Path) -> Catalog:
    """The catalog of a script's declarations. Raises SqlError at the first error."""
    from headgate.connectors.registry import connectors
    from headgate.spark.analysis import type_of
    from headgate.sql import Catalog

    catalog = Catalog(type_of=type_of, connectors=connectors())
    catalog.execute(read(script), file=str(script))
    return catalog


def _importable(folder: Path) -> None:
    """Makes modules in a folder importable for CREATE FUNCTION, here and in Spark's workers (by the environment)."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (known, str(folder)) if part)
