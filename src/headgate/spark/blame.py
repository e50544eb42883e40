"""Has Catalyst compute what has no kernel, and finds the guilty when it raises: which expressions, for which queries.

What Catalyst computes is computed before any query's selection. If it raises on a micro-batch (a bad date is an error
in ANSI mode), Spark's job fails as a whole. Then each expression is tried alone over the same rows. One that raises is
from then on computed only for rows that some query wants it for: a row that a query's WHERE drops is nobody's fault, as
in Spark, where the selection comes first. Queries for which it still raises fail; all others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.analysis import first_line
from headgate.spark.guilt import Guilt
from headgate.spark.packing import Packing
from headgate.spark.slots import conjunction, of_stream
from headgate.spark.uses import Use, uses

_Key = tuple[str, str]


class Blame:
    """Computes the columns that a packing leaves to the epoch, and knows which expressions raised.

    Used by one thread at a time, for the frames of any lanes; a frame is a micro-batch laid out by its packing.
    """

    def __init__(self) -> None:
        self._suspects: set[_Key] = set()
        self._known: tuple[Packing, tuple[Query, ...], list[str] | None] | None = None

    def complete(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> Any:
        """The frame with all columns that these queries want; reads no rows."""
        known = self._known
        if known is None or known[0] is not packing or known[1] is not queries:
            conditions = self._conditions(frame, packing, queries)
            known = self._known = (packing, queries, packing.complete(conditions))
        return frame if known[2] is None else frame.selectExpr(*known[2])

    def accuse(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> list[Guilt] | None:
        """After a job over the completed frame has failed: the queries that must go, perhaps none where it is enough to
        compute an expression for fewer rows; None if no expression of theirs is to blame."""
        used = _by_key(packing, queries)
        if not used or _error(frame, ["*"]) is not None:
            return None
        alone = {key: _case(of_stream(packing, key[0]), packing.text(*key)) for key in used}
        fresh = {key: text for key, text in alone.items() if key not in self._suspects}
        learned = set(_raising(frame, fresh))
        self._suspects |= learned
        self._known = None
        guilty: dict[str, Guilt] = {}
        for key in sorted(self._suspects & set(used)):
            for use in used[key]:
                if use.query not in guilty:
                    error = _error(frame, [_case(_wanted(frame, packing, use), packing.text(*key))])
                    if error is not None:
                        guilty[use.query] = Guilt(use.query, use.operator, use.foreign.sql, first_line(error))
        return list(guilty.values()) if guilty or learned else None

    def _conditions(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> dict[_Key, str]:
        found: dict[_Key, str] = {}
        for key, mine in _by_key(packing, queries).items():
            if key in self._suspects:
                wanted = dict.fromkeys(_wanted(frame, packing, use) for use in mine)
                found[key] = " OR ".join(f"({text})" for text in wanted)
            else:
                found[key] = of_stream(packing, key[0])
        return found


def _by_key(packing: Packing, queries: tuple[Query, ...]) -> Mapping[_Key, list[Use]]:
    """The uses of each computed column of a packing, by stream and name."""
    found: dict[_Key, list[Use]] = {}
    for use in uses(queries):
        if packing.text(use.stream, use.foreign.key) is not None:
            found.setdefault((use.stream, use.foreign.key), []).append(use)
    return found


def _wanted(frame: Any, packing: Packing, use: Use) -> str:
    return f"{of_stream(packing, use.stream)} AND {conjunction(use.guard, frame, packing, use.stream)}"


def _case(condition: str, value: str | None) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


def _error(frame: Any, exprs: Sequence[str]) -> Exception | None:
    """What computing these columns for all rows raises."""
    from pyspark.errors import PySparkException

    try:
        frame.selectExpr(*exprs).write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        return error
    return None


def _raising(frame: Any, exprs: Mapping[_Key, str]) -> Iterable[_Key]:
    """Those that raise alone, by halving: few jobs where few are guilty among many."""
    if not exprs or _error(frame, [f"{text} AS c{n}" for n, text in enumerate(exprs.values())]) is None:
        return []
    if len(exprs) == 1:
        return list(exprs)
    keys = list(exprs)
    halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    return [key for half in halves for key in _raising(frame, {k: exprs[k] for k in half})]
