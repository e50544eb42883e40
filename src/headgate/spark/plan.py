"""The plan of an epoch: the queries, where they run, the policy, the static tables and the packings of the lanes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace

import pyarrow as pa

from headgate.graph.as_json import GraphFormatError, read, written
from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.graph.secrets import masked
from headgate.graph.specs import Objectives
from headgate.runtime.limits import Limits
from headgate.spark import format_1
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import FORMAT, Commit
from headgate.spark.delivery import Delivery
from headgate.spark.packing import Packing
from headgate.spark.placement import Placement
from headgate.spark.static_tables import load_bytes, load_table, save_bytes, save_table


@dataclass(frozen=True)
class Plan:
    """Fixed for an epoch; a change makes another plan, which the next epoch uses.

    In the checkpoint a plan is JSON, named by its content: the SQL and class of each query, which a restart compares
    with its own, and everything that a host needs. Its static tables are files of their own, written once; so are the
    `modules` of users' functions (`shipping.py`), where hosts do not find them. A host uses the plan that its driver
    has just written and named by its content: code that was in the checkpoint before is never imported. Without a
    `placement` there is one replica, which runs all queries. `parts` are the queries as several replicas run them:
    divided at exchanges, with their fragments. `known` are the queries that a restart cannot learn from its script:
    each as it was declared and as it is now (`control/lifecycle.py`); those that do not run are not among `queries`.
    `idle` is used only by the driver and not in the checkpoint: microseconds of silence until a stream is idle.
    """

    queries: tuple[Query, ...]
    policy: str
    mode: str = "policy"
    threads: int | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    packings: Mapping[str, Packing] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    delivery: Delivery | None = None
    placement: Placement | None = None
    parts: tuple[Query, ...] = ()
    modules: bytes = b""
    objectives: Objectives = field(default_factory=dict)
    known: tuple[tuple[Query, Query], ...] = ()
    idle: Mapping[str, int] = field(default_factory=dict)

    @property
    def run_queries(self) -> tuple[Query, ...]:
        """What the replicas run: the queries, or their `parts` (`exchange.py`)."""
        return self.parts or self.queries

    @property
    def replicas(self) -> int:
        return 1 if self.placement is None else self.placement.replicas

    def without(self, ended: Collection[str]) -> Plan:
        """The plan without queries that have ended. Their routes stay, since running lanes number a stream's routes."""
        gone = {part.name for part in self.parts if part.name.rpartition("/")[0] in ended} | set(ended)
        return replace(
            self,
            queries=tuple(query for query in self.queries if query.name not in gone),
            parts=tuple(part for part in self.parts if part.name not in gone),
        )

    @property
    def paused(self) -> frozenset[str]:
        """The names of the paused queries."""
        return frozenset(query.name for query in self.queries if query.pause)

    @property
    def dropping(self) -> frozenset[str]:
        """The names of the queries whose pause drops their rows."""
        return frozenset(query.name for query in self.queries if query.pause == "drop")

    def resumed(self, dropping: Collection[str] = ()) -> Plan:
        """The plan with no query paused but those that are `dropping` their rows. `known` stays: after a restart they
        are paused again."""

        def changed(query: Query) -> Query:
            return replace(query, pause="drop" if query.name.partition(INTERNAL)[0] in dropping else "")

        return replace(self, queries=tuple(map(changed, self.queries)), parts=tuple(map(changed, self.parts)))

    def save(self, checkpoint: Checkpoint) -> str:
        """Writes it where every host finds it, and returns its name."""
        with checkpoint.saving:
            tables = {name: save_table(checkpoint, table) for name, table in self.tables.items()}
            values = {
                "queries": tuple(map(_shown, self.queries)),
                "policy": self.policy,
                "mode": self.mode,
                "threads": self.threads,
                "tables": tables,
                "packings": {name: packing.given for name, packing in self.packings.items()},
                "limits": asdict(self.limits),
                "delivery": None if self.delivery is None else asdict(self.delivery),
                "placement": None if self.placement is None else self.placement.given,
                "parts": tuple(map(_shown, self.parts)),
                "modules": save_bytes(checkpoint, self.modules) if self.modules else "",
                "objectives": self.objectives,
                "known": tuple((_shown(asked), _shown(running)) for asked, running in self.known),
            }
            files = {*tables.values(), str(values["modules"])}
            all_known = (*self.queries, *(query for _, query in self.known))
            queries = {query.name: {"sql": query.sql, "class": query.cls.name} for query in all_known}
            head = json.dumps({"format": FORMAT, "queries": queries, "tables": sorted(files - {""})})
            data = f'{head[:-1]}, "plan": {written(values)}}}'.encode()
            name = hashlib.sha256(data).hexdigest()[:16]
            checkpoint.save_plan(name, data)
            return name

    @staticmethod
    def load(checkpoint: Checkpoint, name: str) -> Plan:
        """A saved plan. Tables that another plan of this process has loaded are not read again."""
        found = checkpoint.saved_plan(name)
        try:
            values = read(found["plan"])
            return Plan(
                values["queries"],
                values["policy"],
                values["mode"],
                values["threads"],
                {table: load_table(checkpoint, file) for table, file in values["tables"].items()},
                {packing: Packing(*given) for packing, given in values["packings"].items()},
                Limits(**values["limits"]),
                None if values["delivery"] is None else Delivery(**values["delivery"]),
                Placement.of(values["placement"]) if values.get("placement") else None,
                values.get("parts", ()),
                load_bytes(checkpoint, values["modules"]) if values.get("modules") else b"",
                values.get("objectives", {}),
                values.get("known", ()),
            )
        except (GraphFormatError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {checkpoint.name}: plan {name} was written by another version of Headgate: {error}"
            ) from error

    @staticmethod
    def known_queries(checkpoint: Checkpoint, name: str) -> tuple[tuple[Query, Query], ...]:
        """`known` of a saved plan."""
        try:
            values = read(checkpoint.saved_plan(name)["plan"])
        except (GraphFormatError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {checkpoint.name}: plan {name} was written by another version of Headgate: {error}"
            ) from error
        known: tuple[tuple[Query, Query], ...] = values.get("known", ())
        return known

    @staticmethod
    def described(checkpoint: Checkpoint, commit: Commit) -> Mapping[str, Mapping[str, str]]:
        """The SQL and the class of each query under the plan of a commit."""
        if not commit.plan:
            return format_1.described(json.loads(checkpoint.read_bytes(commit.snapshots[0])))
        queries: Mapping[str, Mapping[str, str]] = checkpoint.saved_plan(commit.plan)["queries"]
        return queries


def _shown(query: Query) -> Query:
    """A query without the secrets in the options of its sinks: a host opens no sink that needs them."""
    return replace(query, sinks=tuple(replace(sink, options=masked(sink.options)) for sink in query.sinks))
