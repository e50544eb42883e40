"""The network of a replica as it lives from epoch to epoch: restored, re-planned, fed, and cut into an answer.

`ResidentNetwork` does the work of an epoch; when, and on which thread, is the host's part (`host.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.python import load
from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime.dataflow import key_of, plan_key
from headgate.runtime.flight import FlightRecord, recorded
from headgate.runtime.limits import Failure, text_of
from headgate.runtime.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.delivery import Delivered, HostWriters
from headgate.spark.key_load import Counts, KeyLoad
from headgate.spark.local_plan import LocalPlan
from headgate.spark.messages import EpochRequest, ExchangedRows, ExpressionFailure, Place
from headgate.spark.packing import Packing
from headgate.spark.placement import streams_of
from headgate.spark.plan import Plan
from headgate.spark.shipping import make_importable
from headgate.spark.verdicts import Verdict

_LOG = logging.getLogger("headgate.host")
_MALFORMED = "the row is not in the format of the stream, or does not have the declared columns"

DEAD_SCHEMA = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("row", pa.string())])


@dataclass
class EpochCut:
    """The results up to a moment between two grants, and the snapshot of that moment, before it is written."""

    epoch: int
    attempt: str
    manifest: dict[str, Any]
    results: list[tuple[Query, pa.Table]]
    dead: list[pa.RecordBatch]
    arrivals: dict[str, tuple[int, float, float]]
    failed: dict[str, str]
    sent: list[tuple[str, pa.Table, float]]
    once: dict[str, tuple[int, int]]


def error_of(verdict: Verdict, functions: Sequence[str]) -> str:
    """The message of a query that fails by a verdict on an operator with these functions."""
    if not verdict.function:
        return f"the operator {verdict.reason}"
    return f"the function{'s'[: len(functions) > 1]} {', '.join(functions)} {verdict.reason}"


class ResidentNetwork:
    """A network, the plan that it runs under, and the files that it writes.

    Methods are called by one thread at a time, and another thread may call `network.run` meanwhile; `cut` is called
    while nobody does.
    """

    def __init__(self, request: EpochRequest, record: FlightRecord, verdicts: Sequence[Verdict] = ()) -> None:
        """The network at the state of the last committed epoch, under the plan of the request.

        Queries that need an operator with a verdict fail, and those that use the function to blame in other operators;
        their functions are not even imported.
        """
        self._checkpoint = Checkpoint(request.checkpoint)
        self._plan_name = request.plan
        self._plan = plan = Plan.load(self._checkpoint, request.plan)
        make_importable(plan.modules)
        self._store = CheckpointStore(self._checkpoint)
        self._run, self._replica = request.run, request.replica
        self._local = LocalPlan(plan, self._replica)
        self._key_load = KeyLoad(self._local.by_key, self._local.key_slots)
        self._writers = HostWriters(plan.delivery, self._checkpoint, self._run, self._replica)
        self._dead: list[pa.RecordBatch] = []
        # Queries that were added while the network ran and have had no rows yet, and the streams of the present epoch.
        self._added: set[str] = set()
        self._entered: set[str] = set()
        self._record = record
        self._verdicts = {verdict.stage: verdict for verdict in verdicts}
        self._guilty = self._guilty_functions()
        manifest: dict[str, Any] | None = None
        known: dict[str, Failure] = {}
        if request.after >= 0:
            commit = self._checkpoint.load(request.after)
            manifest = self._checkpoint.manifest(commit.snapshots[request.replica])
            known = {each["query"]: Failure(**each) for each in commit.failures}
        graph = SharedGraph()
        self._reported: dict[str, Failure] = {}
        refused: list[Failure] = []
        for query in plan.queries:
            failure = known.get(query.name)
            if failure is not None and failure.plan == plan_key(query):
                self._reported[query.name] = failure
                refused.append(failure)
                continue
            parts = [self._local.queries[name] for name in self._local.parts_of(query.name)]
            obstacles = [failure for part in parts if (failure := self._obstacle(part)) is not None]
            if obstacles:
                refused += obstacles[:1]
                continue
            for part in parts:
                graph.add(part)
        self.network = Network(
            graph,
            plan.policy,
            Settings(tables=plan.tables),
            limits=plan.limits.shared(request.hosts),
            store=self._store,
            clock=time.time,
            mode=plan.mode,
            threads=plan.threads,
            record=record,
        )
        self.network.given_watermarks = self._local.shared
        self.network.objectives = plan.objectives
        if manifest is not None:
            self._store.adopt(manifest)
            self.network.restore(manifest)
        for failure in refused:
            self.network.refuse(failure)

    def _guilty_functions(self) -> dict[str, Verdict]:
        """The functions that verdicts are about. Where an operator has several, any of them may be to blame."""
        found: dict[str, Verdict] = {}
        queries = self._local.queries.values()
        nodes = [node for query in queries for node in query.plan.walk()] if self._verdicts else []
        for node in nodes:
            verdict = self._verdicts.get(key_of(node))
            functions = tuple(node.python_functions)
            if verdict is not None and verdict.function and len(functions) == 1:
                found[functions[0]] = verdict
        return found

    def _obstacle(self, query: Query) -> Failure | None:
        """Why a query cannot run: an operator or its function has a verdict, or a function cannot be imported."""
        for node in query.plan.walk():
            if node.time_limit is not None or self._verdicts:
                error = self._error(node)
                if error is not None:
                    return Failure(query.name, node.kind, node.detail, error, time.time(), plan_key(query))
        return None

    def _error(self, node: Operator) -> str | None:
        key, functions = key_of(node), tuple(node.python_functions)
        if key in self._verdicts:
            return error_of(self._verdicts[key], functions)
        for function in functions:
            if function in self._guilty:
                return error_of(self._guilty[function], (function,))
            try:
                recorded(self._record, key, node.time_limit or 0.0, load)(function)
            except BaseException as raised:
                return text_of(raised)
        return None

    def close(self) -> None:
        """Ends the threads; the network is not used any more."""
        self.network.close()
        self._writers.close()

    def begin(self, epoch: int, attempt: str) -> None:
        """All files written from now on belong to this attempt at an epoch."""
        self._added.difference_update(self.awaited)
        self._arrived: set[str] = set()
        self._fed: set[str] = set()
        self._entered = set()
        self._store.begin(epoch, attempt)

    def follow(self, name: str) -> None:
        """Changes to another plan, unless it is the present one, and keeps the state that both share."""
        if name == self._plan_name:
            return
        plan = Plan.load(self._checkpoint, name)
        make_importable(plan.modules)
        local = LocalPlan(plan, self._replica)
        if plan.tables != self._plan.tables:
            self.network.renew_tables(Settings(tables=plan.tables))
        self._change_queries(self._local.queries, local.queries)
        if plan.policy != self._plan.policy:
            self.network.policy = plan.policy
        if plan.mode != self._plan.mode:
            self.network.mode = plan.mode
        if plan.threads != self._plan.threads:
            self.network.threads = plan.threads
        if plan.objectives != self._plan.objectives:
            self.network.objectives = plan.objectives
        self._writers.close()
        self._writers = HostWriters(plan.delivery, self._checkpoint, self._run, self._replica)
        self._plan, self._plan_name, self._local = plan, name, local
        self._key_load.routes = local.by_key

    def _change_queries(self, before: Mapping[str, Query], after: Mapping[str, Query]) -> None:
        """Changes from the queries of one plan to those of another. What is compared is what runs: a query that could
        not change to the plan of `before` still has the one from before that."""
        running = dict(self.network.queries)
        kept = {name for name, query in after.items() if name in running and query.same_results(running[name])}
        swapped = {n for n, q in after.items() if n in running and n not in kept and running[n].same_question(q)}
        for old in before:
            if old in running and old not in kept | swapped:
                # Nobody takes the results of a query that the plan does not have. It may run what others change to.
                self.network.remove(old, discard=True)
        refused = self._swap([after[name] for name in after if name in swapped])
        for new, query in after.items():
            if new in kept | swapped:
                altered = query if new not in refused else replace(query, plan=running[new].plan)
                # A query may have failed while its plan was changed.
                if new in self.network.queries and altered != self.network.queries[new]:
                    self.network.alter(altered)
            elif before.get(new) != query:
                failure = self._obstacle(query)
                if failure is None:
                    self.network.add(query)
                    self._added.add(new)
                else:
                    self.network.refuse(failure)

    def _swap(self, queries: Sequence[Query]) -> set[str]:
        """Gives queries other plans; those whose state would be lost keep theirs, and are returned. One may become
        possible by another."""
        left = list(queries)
        while left:
            refused: list[Query] = []
            for query in left:
                try:
                    self.network.swap(query)
                except ValueError as error:
                    _LOG.warning("%s", error)
                    refused.append(query)
            if len(refused) == len(left):
                break
            left = refused
        return {query.name for query in left}

    def advance(self, event_times: Mapping[str, int]) -> None:
        """Raises the watermarks to those of the newest event times that the streams have reached on any replica."""
        for stream, newest in event_times.items():
            for name in self._local.local_names(stream):
                if name in self.network.streams:
                    self.network.advance_to(name, newest)

    def catch_up(self, watermarks: Mapping[str, int]) -> None:
        """Raises the watermarks of streams that bring nothing."""
        for stream, watermark in watermarks.items():
            for name in self._local.local_names(stream):
                if name in self.network.streams:
                    self.network.catch_up(name, watermark)

    def fail_as_elsewhere(self, failure: ExpressionFailure) -> None:
        """A query has failed on another replica."""
        query, operator, detail, error = failure.query, failure.operator, failure.detail, failure.error
        running = [name for name in self._local.parts_of(query) if name in self.network.queries]
        for name in running:
            self.network.quarantine(name, operator, detail, error)
        if not running and query not in self.network.failures and query not in self._reported:
            self.network.refuse(self._local.failure(query, operator, detail, error, time.time()))

    def fail_together(self) -> None:
        """The parts of a query fail together: none goes on without what a failed fragment does not send."""
        for failure in list(self.network.failures.values()) if self._local.fragments else ():
            query = self._local.query_of(failure.query)
            for name in self._local.parts_of(query):
                if name in self.network.queries:
                    self.network.quarantine(name, failure.operator, failure.detail, failure.error)

    def receive(self, exchange: Sequence[ExchangedRows], reached: Mapping[str, int]) -> None:
        """Takes the rows that fragments on all replicas have sent to this one, and behind them their watermarks."""
        for sent in exchange:
            if not self._local.local_names(sent.fragment):
                # Read on other replicas only.
                continue
            for batch in self._checkpoint.read(sent.place).to_batches():
                for name, rows in self._local.received(sent.fragment, batch):
                    if rows.num_rows and name in self.network.streams:
                        self._key_load.add(name, rows)
                        self.network.push(name, rows, sent.arrived, advance=False)
                        self._entered.add(name)
        for fragment, watermark in reached.items():
            for name in self._local.local_names(fragment):
                if name in self.network.streams:
                    self.network.reach(name, watermark)

    def finish(self) -> None:
        """Ends every stream but those of fragments, which end when their fragments have."""
        internal = {name for fragment in self._local.fragments for name in self._local.local_names(fragment)}
        self.network.finish(stream for stream in self.network.streams if stream not in internal)

    @property
    def event_times(self) -> dict[str, int]:
        """The newest event time of each stream among the rows of this replica."""
        return self._local.by_stream(self.network.newest)

    @property
    def selected(self) -> dict[str, tuple[int, int]]:
        """See `EpochAnswer.selected`."""
        return self._local.selected(self.network.selected, self.network.streams)

    @property
    def key_rows(self) -> Counts:
        """See `EpochAnswer.key_rows`."""
        return self._key_load.counts

    def feed(self, packing: str, packed: pa.RecordBatch, since: float) -> int:
        """Pushes rows that arrived at a time (s since 1970) into the network, and returns their number."""
        layout: Packing = self._plan.packings[packing]
        for stream, rows, flaws, mask in layout.unpack(packed):
            if flaws is not None and flaws.null_count < len(flaws):
                rows = self._without_flaws(stream, rows, flaws)
                mask = None if mask is None else mask.filter(pc.is_null(flaws))
            if rows.num_rows:
                self._arrived.add(stream)
            for name, part in self._local.separated(stream, rows, mask):
                if part.num_rows and name in self.network.streams:
                    self._key_load.add(name, part)
                    self.network.push(name, part, since, advance=False)
                    self._fed.add(name)
                    self._entered.add(name)
        return int(packed.num_rows)

    def fed_all(self, since: float) -> None:
        """All rows of the epoch have been fed: they are behind the same watermark."""
        for stream in self.fed:
            self.network.advance(stream, since)

    @property
    def arrived(self) -> tuple[str, ...]:
        """The declared streams of which rows have been fed in this epoch."""
        return tuple(sorted(self._arrived))

    @property
    def fed(self) -> tuple[str, ...]:
        """The streams of the network into which rows have been pushed in this epoch."""
        return tuple(sorted(self._fed))

    @property
    def awaited(self) -> tuple[str, ...]:
        """The queries that were added while the network ran and get their first rows in this epoch."""
        running = self.network.queries
        return tuple(
            name
            for name in sorted(self._added)
            if name in running and not self._entered.isdisjoint(streams_of(running[name].plan))
        )

    def _without_flaws(self, stream: str, rows: pa.RecordBatch, flaws: pa.StringArray) -> pa.RecordBatch:
        """Moves malformed rows to the dead letters and returns the others."""
        good = pc.is_null(flaws)
        bad = flaws.filter(pc.invert(good))
        self._dead.append(
            pa.RecordBatch.from_arrays(
                [
                    pa.array([stream] * len(bad)),
                    pa.array([_MALFORMED] * len(bad)),
                    bad,
                ],
                schema=DEAD_SCHEMA,
            )
        )
        return rows.filter(good)

    def cut(self, epoch: int, attempt: str, withheld: Collection[str] = ()) -> EpochCut:
        """Takes all results but those of paused and `withheld` queries, and the snapshot that belongs to them. Called
        while no grant runs."""
        network = self.network
        arrivals: dict[str, tuple[int, float, float]] = {}
        found: list[tuple[Query, pa.Table]] = []
        for query in self._plan.queries:
            # What a paused query has made before is emitted when it is resumed.
            takes = query.name in network.outboxes and not query.pause and query.name not in withheld
            results = network.take(query.name) if takes else []
            if results:
                # The declared query: its sinks and its columns are the same on every replica.
                found.append((query, pa.Table.from_batches([result.rows for result in results])))
                arrived = [result.arrival for result in results]
                total = (sum(a.count for a in arrived), sum(a.total for a in arrived), min(a.first for a in arrived))
                arrivals[query.name] = total
        sent: list[tuple[str, pa.Table, float]] = []
        for name in sorted(self._local.fragments):
            takes = name in network.outboxes and network.outboxes[name].query.pause != "keep"
            taken = network.take(name) if takes else []
            if taken:
                came = [result.arrival for result in taken]
                mean = sum(each.total for each in came) / max(1, sum(each.count for each in came))
                sent.append((name, pa.Table.from_batches([result.rows for result in taken]), mean))
        dead, self._dead = self._dead, []
        self._store.open_bundle()
        manifest = network.snapshot()
        known: dict[str, Failure] = {}
        for name, failure in network.failures.items():
            whole = self._local.query_of(name)
            if name == whole:
                known[name] = failure
            else:
                known.setdefault(whole, self._reported.get(whole, failure))
        manifest["failures"] = [self._local.declared(failure).state() for failure in known.values()]
        failed = {name: str(each) for name, each in known.items() if self._reported.get(name) is not each}
        self._reported = known
        return EpochCut(epoch, attempt, manifest, found, dead, arrivals, failed, sent, self._once(withheld))

    def _once(self, withheld: Collection[str]) -> dict[str, tuple[int, int]]:
        """See `EpochAnswer.once`."""
        found: dict[str, tuple[int, int]] = {}
        for query in self._plan.queries:
            if not query.once or query.pause or query.name in withheld:
                continue
            parts = [name for name in self._local.parts_of(query.name) if name in self.network.queries]
            if parts:
                progress = {name: self.network.progress(name) for name in parts}
                rows = progress[query.name][0] if query.name in progress else 0
                found[query.name] = (rows, sum(waiting for _, waiting in progress.values()))
        return found

    def send(self, cut: EpochCut) -> tuple[ExchangedRows, ...]:
        """Makes the rows that fragments send durable. Their file is needed by the next epoch, as the state is."""
        if not cut.sent:
            return ()
        bundle = self._checkpoint.bundle("parts", cut.epoch, f"{cut.attempt}-sent")
        for name, table, _ in cut.sent:
            bundle.add(name, table)
        bundle.close()
        return tuple(
            ExchangedRows(name, place, arrived)
            for (name, place), (_, _, arrived) in zip(bundle.places, cut.sent, strict=True)
        )

    def save(self, cut: EpochCut) -> tuple[Place, tuple[str, ...], Delivered]:
        """Makes results and snapshot durable; returns the place of the manifest, all files that the state needs, and
        where the results are.

        The network may go on meanwhile.
        """
        delivered = self._writers.deliver(cut.results, cut.dead, cut.epoch, cut.attempt)
        return *self._store.close_bundle(cut.manifest), delivered
