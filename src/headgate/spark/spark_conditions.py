"""The queries' conditions as Spark SQL over a packed table, for decisions made before rows enter the worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Column, Expr, Foreign
from headgate.spark.packing import TAG, Packing
from headgate.spark.spark_errors import expecting_errors, spark_errors
from headgate.sql.foreign import NotSpark, spark_text

COSTLY = frozenset(("rlike", "regexp_extract", "regexp_replace", "split", "repeat", "lpad", "rpad", "space"))
"""Functions that may take exponential time or any amount of memory in the JVM, and do not in the worker."""


def of_stream(packing: Packing, stream: str) -> str:
    """True for the rows of a stream."""
    return f"{TAG} = {packing.streams.index(stream)}"


def conjunction(tests: Iterable[Expr], frame: Any, packing: Packing, stream: str) -> str:
    """True for every row of the stream that passes all tests, and for some others: a test is omitted if it could raise
    or be costly, if Catalyst computes it anyway (it would be computed twice) or if it has no Spark SQL form."""
    found = (_over(test, packing, stream) for test in dict.fromkeys(tests) if _harmless(test))
    return " AND ".join(text for text in found if text is not None and _understood(frame, text)) or "TRUE"


def _harmless(test: Expr) -> bool:
    def wrong(part: Expr) -> bool:
        return isinstance(part, Foreign) or (isinstance(part, Call) and part.name in COSTLY)

    return not fallible(test) and not any(wrong(part) for part in test.walk())


def _over(expr: Expr, packing: Packing, stream: str) -> str | None:
    names = packing.names(stream)

    def slot(column: Column) -> str:
        found = packing.slot(stream, names[column.index])
        if found is None:
            raise NotSpark(column.text)
        return found

    try:
        return spark_text(expr, slot)
    except NotSpark:
        return None


def _understood(frame: Any, text: str) -> bool:
    try:
        with expecting_errors():
            frame.where(text).schema  # noqa: B018
    except spark_errors():
        return False
    return True
