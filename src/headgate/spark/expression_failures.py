"""Adds the columns that only Catalyst computes, and finds which expressions of which queries raise.

Catalyst computes these columns before any query's selection. If one raises on a micro-batch (a bad date is an error in
ANSI mode), Spark's job fails as a whole. Then each expression is evaluated alone over the same rows. One that raises is
from then on computed only for rows that pass the selections of a query that uses it: in Spark, too, the selection comes
first. Queries for which it still raises fail; all others continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.analysis import first_line
from headgate.spark.packing import Packing
from headgate.spark.required_columns import ForeignUse, foreign_uses
from headgate.spark.spark_conditions import conjunction, of_stream
from headgate.spark.task import ExpressionFailure

_Key = tuple[str, str]


class CatalystColumns:
    """Computes the columns that a packing leaves to the epoch, and remembers which expressions have raised.

    Used by one thread at a time, for the frames of any lanes; a frame is a micro-batch laid out by its packing.
    """

    def __init__(self) -> None:
        self._raised: set[_Key] = set()
        self._known: tuple[Packing, tuple[Query, ...], list[str] | None] | None = None

    def complete(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> Any:
        """The frame with all columns that these queries use; reads no rows."""
        known = self._known
        if known is None or known[0] is not packing or known[1] is not queries:
            conditions = self._conditions(frame, packing, queries)
            known = self._known = (packing, queries, packing.complete(conditions))
        return frame if known[2] is None else frame.selectExpr(*known[2])

    def find_failures(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[ExpressionFailure] | None:
        """After a job over the completed frame has failed: the queries that fail. An empty list means that computing an
        expression for fewer rows is enough; None means that no expression of these queries raised."""
        used = _by_key(packing, queries)
        if not used or _error(frame, ["*"]) is not None:
            return None
        alone = {key: _case(of_stream(packing, key[0]), packing.text(*key)) for key in used}
        fresh = {key: text for key, text in alone.items() if key not in self._raised}
        learned = set(_raising(frame, fresh))
        self._raised |= learned
        self._known = None
        failures: dict[str, ExpressionFailure] = {}
        for key in sorted(self._raised & set(used)):
            for use in used[key]:
                if use.query not in failures:
                    error = _error(frame, [_case(_wanted(frame, packing, use), packing.text(*key))])
                    if error is not None:
                        failures[use.query] = ExpressionFailure(
                            use.query, use.operator, use.foreign.sql, first_line(error)
                        )
        return list(failures.values()) if failures or learned else None

    def _conditions(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> dict[_Key, str]:
        found: dict[_Key, str] = {}
        for key, mine in _by_key(packing, queries).items():
            if key in self._raised:
                wanted = dict.fromkeys(_wanted(frame, packing, use) for use in mine)
                found[key] = " OR ".join(f"({text})" for text in wanted)
            else:
                found[key] = of_stream(packing, key[0])
        return found


def _by_key(packing: Packing, queries: tuple[Query, ...]) -> Mapping[_Key, list[ForeignUse]]:
    """The uses of each computed column of a packing, by stream and name."""
    found: dict[_Key, list[ForeignUse]] = {}
    for use in foreign_uses(queries):
        if packing.text(use.stream, use.foreign.key) is not None:
            found.setdefault((use.stream, use.foreign.key), []).append(use)
    return found


def _wanted(frame: Any, packing: Packing, use: ForeignUse) -> str:
    return f"{of_stream(packing, use.stream)} AND {conjunction(use.guard, frame, packing, use.stream)}"


def _case(condition: str, value: str | None) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


def _error(frame: Any, exprs: Sequence[str]) -> Exception | None:
    """The error of computing these columns for all rows, or None."""
    from pyspark.errors import PySparkException

    try:
        frame.selectExpr(*exprs).write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        return error
    return None


def _raising(frame: Any, exprs: Mapping[_Key, str]) -> Iterable[_Key]:
    """Finds the raising expressions by bisection: O(k log n) jobs for k failures among n."""
    if not exprs or _error(frame, [f"{text} AS c{n}" for n, text in enumerate(exprs.values())]) is None:
        return []
    if len(exprs) == 1:
        return list(exprs)
    keys = list(exprs)
    halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    return [key for half in halves for key in _raising(frame, {k: exprs[k] for k in half})]
