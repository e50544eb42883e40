"""Text to graph: a script of statements to streams, queries and their operators.

The SELECT dialect is Spark's, parsed by a dialect of our own that is derived from sqlglot's (`dialect`). Names,
types, coercions and the shape of the plan are ours, on sqlglot's syntax tree: its optimizer (qualify, simplify,
pushdown) is not used, because it loses positions in the text, which every refusal here must give, and because it
rewrites by rules that are not those of Spark's ANSI mode (for example it reorders conditions that may raise).
What it would do is done on the typed graph instead: constants are folded (`headgate.expressions.constants`),
conditions pushed down (`pushdown`), projections merged and columns pruned (`plan`), conditions normalized
(`headgate.expressions.normalize`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.sql.catalog import Catalog, Result
    from headgate.sql.errors import SqlError

__all__ = ["Catalog", "Result", "SqlError"]

_MODULES = {"Catalog": "catalog", "Result": "catalog", "SqlError": "errors"}


def __getattr__(name: str) -> Any:
    # When first used: hosts get queries as graphs and use parts of this package that need no parser.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
