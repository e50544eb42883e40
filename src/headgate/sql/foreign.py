"""Expressions that Catalyst computes before the rows enter the worker, and their text in Spark SQL.

Such a call depends on one stream's columns, below any aggregate. While a query is bound it is a `Catalyst`
over columns; when the plan is built it becomes a `Foreign` beside its source (`headgate.sql.plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property

from headgate.expressions.notation import INFIX, PREFIX, SUFFIX
from headgate.graph import types as t
from headgate.graph.expressions import Call, Column, Expr, Literal

_TRIM = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}
_EXTRACTED = {
    "extract_seconds": "SECOND",
    "yearofweek": "YEAROFWEEK",
    "interval_days": "DAY",
    "interval_hours": "HOUR",
    "interval_minutes": "MINUTE",
    "interval_seconds": "SECOND",
}


class NotSpark(ValueError):
    """An expression that cannot be written in Spark SQL; the message names the part."""


@dataclass(frozen=True, eq=False)
class Catalyst(Expr):
    """An expression that Catalyst computes: `sql` is its text, `reads` the columns of the stream that it reads."""

    sql: str
    reads: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.reads

    @cached_property
    def text(self) -> str:
        return f"catalyst[{self.sql}]({', '.join(c.text for c in self.reads)}):{self.type}"

    def rewrite(self, change: Callable[[Expr], Expr | None]) -> Expr:
        changed = change(self)
        if changed is not None:
            return changed
        return Catalyst(self.type, self.sql, tuple(column.rewrite(change) for column in self.reads))


def spark_text(expr: Expr, name_of: Callable[[Column], str]) -> str:
    """An expression as Spark SQL text; `name_of` gives the names of columns.

    >>> spark_text(Call(t.BOOLEAN, "gt", (Column(t.INT, 0), Literal(t.INT, 5))), lambda c: "a")
    '(`a` > 5)'
    """
    if isinstance(expr, Column):
        return quoted(name_of(expr))
    if isinstance(expr, Literal):
        return _literal(expr)
    if isinstance(expr, Catalyst):
        return expr.sql
    if not isinstance(expr, Call):
        raise NotSpark(expr.text)
    args = [spark_text(arg, name_of) for arg in expr.args]
    name = expr.name
    if name in _TRIM and len(args) == 2:
        return f"TRIM({_TRIM[name]} {args[1]} FROM {args[0]})"
    if name in ("like", "ilike") and len(args) == 3:
        return f"({args[0]} {INFIX[name]} {args[1]} ESCAPE {args[2]})"
    if name in INFIX and len(args) >= 2:
        return "(" + f" {INFIX[name]} ".join(args) + ")"
    if name in PREFIX:
        return f"({PREFIX[name]}{args[0]})"
    if name in SUFFIX:
        return f"({args[0]}{SUFFIX[name]})"
    if name in ("cast", "try_cast"):
        return f"{name.upper()}({args[0]} AS {t.sql_name(expr.type)})"
    if name == "case":
        pairs = "".join(f" WHEN {w} THEN {v}" for w, v in zip(args[:-1:2], args[1::2], strict=False))
        return f"CASE{pairs} ELSE {args[-1]} END"
    if name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if name == "field":
        return f"{args[0]}.{quoted(expr.option)}"
    if name == "element":
        return f"{args[0]}[{args[1]}]"
    if name == "plus_months":
        return f"({args[0]} + INTERVAL '1' MONTH * {args[1]})"
    if name in _EXTRACTED:
        return f"EXTRACT({_EXTRACTED[name]} FROM {args[0]})"
    if name in ("timestampadd", "timestampdiff") and isinstance(expr.args[0], Literal):
        return f"{name}({str(expr.args[0].value).upper()}, {', '.join(args[1:])})"
    if name in ("python", "window", "session_window", "rows_window", "window_time"):
        raise NotSpark("a Python function" if name == "python" else f"{name}()")
    return f"{name}({', '.join(args)})"


def quoted(name: str) -> str:
    """A name in backquotes.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A string constant in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _literal(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {t.sql_name(type_)})" if type_ != t.NULL else "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, timedelta):
        # Imported here: hosts use this module, and intervals need the parser.
        from headgate.sql.intervals import interval_text

        return interval_text(value)
    if isinstance(value, datetime):
        kind = "TIMESTAMP_NTZ" if type_ == t.TIMESTAMP_NTZ else "TIMESTAMP"
        return f"{kind} '{value.isoformat(sep=' ')}'"
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS {t.sql_name(type_)})"
    if type_ == t.INT:
        return str(value)
    return f"CAST('{value}' AS {t.sql_name(type_)})"
