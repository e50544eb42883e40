"""Adds the columns that only Catalyst computes, and finds which expressions of which queries raise.

Catalyst computes these columns before any query's selection. If it cannot plan one, or one raises on a row (a bad date
is an error in ANSI mode), Spark's job fails as a whole. Then bisection finds the expressions that raise. From then on
these are computed only for rows that reach the place in a query where they are used: in Spark, too, the selection and
the CASE come first. Queries for which one still raises fail; all others continue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.messages import ExpressionFailure
from headgate.spark.packing import Packing
from headgate.spark.required_columns import ForeignUse, foreign_uses
from headgate.spark.spark_conditions import conjunction, of_stream
from headgate.spark.spark_errors import JobLost, expecting_errors, job_error, reason, spark_errors

_Key = tuple[str, str]
"""A computed column: its stream and its name in the worker."""

_Uses = Mapping[_Key, Sequence[ForeignUse]]


class CatalystColumns:
    """Computes the columns that a packing leaves to Catalyst, and remembers which expressions have raised.

    Used by one thread at a time, for the frames of any lanes. A frame is laid out by its packing; it is a micro-batch
    or, for `complete` and `plan_failures`, a stream.
    """

    def __init__(self) -> None:
        self._raised: set[_Key] = set()
        self._known: tuple[Packing, tuple[Query, ...], list[str] | None] | None = None

    def complete(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> Any:
        """The frame with all columns that these queries use; reads no rows. May raise what Spark's analyzer raises."""
        columns = self.columns(frame, packing, queries)
        with expecting_errors():
            return frame if columns is None else frame.selectExpr(*columns)

    def columns(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[str] | None:
        """The columns of the completed frame as Spark SQL; None if there is nothing to add."""
        known = self._known
        if known is None or known[0] is not packing or known[1] is not queries:
            conditions = self._conditions(frame, packing, _by_key(packing, queries))
            known = self._known = (packing, queries, packing.complete(conditions))
        return known[2]

    def find_failures(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[ExpressionFailure] | None:
        """After a job over the completed micro-batch has failed: the queries that fail. An empty list means that
        computing an expression for fewer rows is enough; None means that no expression of these queries raised.

        `frame` is the micro-batch before `complete` (and before any filter). Reads it several times.
        """
        try:
            return self._find(frame, packing, queries)
        except JobLost:
            return None

    def plan_failures(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[ExpressionFailure] | None:
        """After a lane over the completed stream could not start: the queries whose expressions Spark cannot analyze,
        plan or compile, whatever the rows are; else as `find_failures`. Reads no rows."""
        return self.find_failures(frame.sparkSession.createDataFrame([], frame.schema), packing, queries)

    def _find(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[ExpressionFailure] | None:
        used = _by_key(packing, queries)
        if not used or job_error(frame) is not None:
            return None

        known: dict[frozenset[tuple[_Key, str]], Exception | None] = {}

        def error(conditions: Mapping[_Key, str]) -> Exception | None:
            asked = frozenset(conditions.items())
            if asked not in known:
                known[asked] = _error(frame, packing.complete(conditions) or ["*"])
            return known[asked]

        everywhere = {key: of_stream(packing, key[0]) for key in used if key not in self._raised}
        learned = set(_raising(everywhere, error))
        failures: dict[str, ExpressionFailure] = {}
        for key in sorted((self._raised | learned) & set(used)):
            for use in used[key]:
                raised = error({key: _wanted(frame, packing, use)}) if use.query not in failures else None
                if raised is not None:
                    failures[use.query] = _failure(use, packing, reason(raised))
        if not learned and not failures:
            failures = self._failures_together(frame, packing, used, error)
        if not learned and not failures:
            return None
        if job_error(frame) is not None:
            return None  # the rows themselves can no longer be read
        self._raised |= learned
        self._known = None
        return list(failures.values())

    def _failures_together(
        self, frame: Any, packing: Packing, used: _Uses, error: Callable[[Mapping[_Key, str]], Exception | None]
    ) -> dict[str, ExpressionFailure]:
        """For expressions that raise only together (a plan that is too large): the queries that use the last expression
        of the shortest raising prefix."""
        conditions = self._conditions(frame, packing, used)
        raised = error(conditions)
        if raised is None:
            return {}
        keys = list(conditions)
        low, high = 1, len(keys)  # the first `high` raise
        while low < high:
            middle = (low + high) // 2
            found = error({key: conditions[key] for key in keys[:middle]})
            if found is None:
                low = middle + 1
            else:
                high, raised = middle, found
        said = f"{reason(raised)} (together with {high - 1} other expressions)"
        return {use.query: _failure(use, packing, said) for use in used[keys[high - 1]]}

    def _conditions(self, frame: Any, packing: Packing, used: _Uses) -> dict[_Key, str]:
        found: dict[_Key, str] = {}
        for key, mine in used.items():
            if key in self._raised:
                wanted = dict.fromkeys(_wanted(frame, packing, use) for use in mine)
                found[key] = " OR ".join(f"({text})" for text in wanted)
            else:
                found[key] = of_stream(packing, key[0])
        return found


def _failure(use: ForeignUse, packing: Packing, said: str) -> ExpressionFailure:
    """The failure of a query, with the names of its stream's columns where Spark's message has those of slots."""
    names = {packing.slot(use.stream, name): name for name in packing.names(use.stream)}
    said = re.sub(r"\b[a-z]\d+_\d+\b", lambda found: names.get(found[0], found[0]), said)
    return ExpressionFailure(use.query, use.operator, use.foreign.sql, said)


def _error(frame: Any, exprs: Sequence[str]) -> Exception | None:
    """The error of analyzing, planning and computing these columns, or None; or raises JobLost."""
    try:
        with expecting_errors():
            completed = frame.selectExpr(*exprs)
    except spark_errors() as error:
        return error
    return job_error(completed)


def _by_key(packing: Packing, queries: tuple[Query, ...]) -> _Uses:
    """The uses of each computed column of a packing."""
    found: dict[_Key, list[ForeignUse]] = {}
    for use in foreign_uses(queries):
        if packing.text(use.stream, use.foreign.key) is not None:
            found.setdefault((use.stream, use.foreign.key), []).append(use)
    return found


def _wanted(frame: Any, packing: Packing, use: ForeignUse) -> str:
    """True for the rows of the stream for which the use needs the value."""
    mine, guard = of_stream(packing, use.stream), conjunction(use.guard, frame, packing, use.stream)
    return mine if guard == "TRUE" else f"{mine} AND {guard}"


def _raising(conditions: Mapping[_Key, str], error: Callable[[Mapping[_Key, str]], Exception | None]) -> Iterable[_Key]:
    """Finds the raising expressions by bisection: O(k log n) jobs for k failures among n."""
    if not conditions or error(conditions) is None:
        return []
    if len(conditions) == 1:
        return list(conditions)
    keys = list(conditions)
    halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    return [key for half in halves for key in _raising({k: conditions[k] for k in half}, error)]
