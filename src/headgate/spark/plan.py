"""The plan of an epoch: the queries, the policy, the static tables and the packings of the lanes."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.runtime.limits import Limits
from headgate.spark import format_1
from headgate.spark.checkpoint import Checkpoint, CheckpointError, Commit
from headgate.spark.packing import Packing


@dataclass(frozen=True)
class Plan:
    """Fixed for an epoch; a change makes another plan, which the next epoch uses."""

    queries: tuple[Query, ...]
    policy: str
    mode: str = "policy"
    threads: int | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    packings: Mapping[str, Packing] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def save(self, checkpoint: Checkpoint) -> str:
        """Writes it where every worker finds it, and returns its name."""
        data = pickle.dumps(self)
        name = hashlib.sha256(data).hexdigest()[:16]
        checkpoint.write(f"plans/{name}", data)
        return name

    @staticmethod
    def load(checkpoint: Checkpoint, name: str) -> Plan:
        try:
            with checkpoint.files.open_input_stream(f"{checkpoint.root}/plans/{name}") as stream:
                found: Any = pickle.loads(stream.read())
        except OSError as error:
            raise CheckpointError(f"checkpoint {checkpoint.uri}: plan {name} cannot be read: {error}") from error
        assert isinstance(found, Plan)
        return found

    @staticmethod
    def described(checkpoint: Checkpoint, commit: Commit) -> Mapping[str, Mapping[str, str]]:
        """The SQL and the class of each query under the plan of a commit."""
        if not commit.plan:
            return format_1.described(json.loads(checkpoint.read_bytes(commit.snapshots[0])))
        queries = Plan.load(checkpoint, commit.plan).queries
        return {query.name: {"sql": query.sql, "class": query.cls.name} for query in queries}
