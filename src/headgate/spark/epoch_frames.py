"""The frames of epochs: from packed rows of a lane to answers of the hosts, without queries that Catalyst fails on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.graph.queries import Query
from headgate.runtime.limits import Failure
from headgate.spark.expression_failures import CatalystColumns
from headgate.spark.jobs import Answers, Jobs
from headgate.spark.messages import ExpressionFailure
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.prefilter import Prefilter
from headgate.spark.routing import routed
from headgate.spark.spark_errors import spark_errors


class EpochFrames:
    """Makes frames for the epochs of an engine. Used by one thread.

    - `failed` returns which of the given queries have failed up to the last commit
    - `failing`: queries that Catalyst fails for, until a commit contains their failure
    """

    def __init__(self, jobs: Jobs, failed: Callable[[tuple[Query, ...]], Mapping[str, Failure]]) -> None:
        self.failing: tuple[ExpressionFailure, ...] = ()
        self._jobs = jobs
        self._failed = failed
        self._catalyst = CatalystColumns()
        self._prefilter = Prefilter()
        self._left: tuple[Plan, object, tuple[Query, ...]] | None = None

    def prepare(self, packed: Any, packing: Packing, plan: Plan) -> Any:
        """The streaming frame of a lane that is not careful: from packed rows to answers."""
        while True:
            queries = self._running(plan)
            rows = self._prefilter.filter(packed, packing, queries)
            try:
                return self._answers(self._catalyst.complete(rows, packing, queries), packing, plan)
            except spark_errors():
                found = self._catalyst.plan_failures(packed, packing, queries)
                if found is None:
                    raise
                self.failing += tuple(found)

    def conditions(self, packed: Any, packing: Packing, plan: Plan) -> object:
        """What `prepare` adds to the packed rows; a lane is restarted if it changes."""
        queries = self._running(plan)
        return (
            self._prefilter.condition(packed, packing, queries),
            self._catalyst.columns(packed, packing, queries),
            None if plan.placement is None else [plan.placement.routes_of(stream) for stream in packing.streams],
            None if plan.placement is None else plan.placement.owners,
            plan.replicas,
        )

    def careful(
        self,
        packed: Any,
        packing: Packing,
        plan: Plan,
        collect: Callable[[Any], Answers],
        is_catalyst: Callable[[Exception], bool],
    ) -> Answers:
        """The answers to packed rows; `collect` runs the job. If Catalyst raises, the queries that use the expression
        fail, and the job is repeated for all others. Each retry knows one more raising expression, so the loop ends.
        `is_catalyst` distinguishes such errors from those of hosts and executors."""
        while True:
            queries = self._running(plan)
            rows = self._prefilter.filter(packed, packing, queries)
            try:
                completed = self._catalyst.complete(rows, packing, queries)
                return collect(self._answers(completed, packing, plan))
            except Exception as error:
                if not is_catalyst(error):
                    raise
                if self._prefilter.raised(packed, packing):
                    continue
                found = self._catalyst.find_failures(packed, packing, queries)
                if found is None:
                    raise
                self.failing += tuple(found)

    def committed(self, failures: int, selected: Mapping[str, tuple[int, int]]) -> bool:
        """Called after a commit that contains the first `failures`, with the rows that selections kept (`selected`);
        True if lanes should be prepared again."""
        self.failing = self.failing[failures:]
        return self._prefilter.report(selected)

    def _answers(self, rows: Any, packing: Packing, plan: Plan) -> Any:
        """The frame of answers to packed rows, which go to the replicas that need them."""
        if plan.placement is None:
            return self._jobs.answers(rows, 1)
        return self._jobs.answers(routed(rows, packing, plan.placement), plan.replicas)

    def _running(self, plan: Plan) -> tuple[Query, ...]:
        """The queries that have not failed; the same tuple as long as these do not change."""
        failed = self._failed(plan.queries)
        gone = {failure.query for failure in self.failing}
        if not failed and not gone:
            return plan.queries
        key = (tuple(failed), gone)
        if self._left is None or self._left[0] is not plan or self._left[1] != key:
            left = [q for q in plan.queries if q.name not in gone and q.name not in failed]
            self._left = (plan, key, tuple(left))
        return self._left[2]
