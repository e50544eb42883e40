"""The state of live operators as rows that can be divided by key: it is moved when the replicas of a query change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.keys import one_chunk, rebuild
from headgate.operators.contract import Snapshot

Ints = npt.NDArray[np.int64]

Locate = Callable[[Sequence[pa.Array]], Ints]
"""The new owner of each row, given the operator's keys: one array for each of `Operator.partition_keys`."""


class NotDrained(ValueError):
    """The replicas of an operator have made unequal progress; their states cannot be united."""


@dataclass(frozen=True)
class StateKeys:
    """Where a table of state holds the operator's keys: the positions of flat columns, and the types of the keys."""

    places: tuple[int, ...]
    types: tuple[pa.DataType, ...]

    def of(self, table: pa.Table) -> list[pa.Array]:
        """The keys of every row."""
        return rebuild([one_chunk(table.column(place)) for place in self.places], self.types)


@dataclass(frozen=True)
class StateRows:
    """The state of one operator: tables of rows by section, and values that are not rows.

    - `progress`: watermarks, which must be equal on all replicas
    - `highest`: values of which the united state has the highest of all replicas (the next row number)
    - `lowest`: values of which it has the lowest
    - `counts`: counters, which are added up; a division gives them to the first replica
    """

    tables: Mapping[str, Sequence[pa.Table]] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    highest: Mapping[str, Any] = field(default_factory=dict)
    lowest: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def united(states: Sequence[StateRows]) -> StateRows:
        """The states of several replicas, which have different keys, as one; the tables are listed, largest first."""
        first = states[0]
        for other in states[1:]:
            if other.progress != first.progress:
                raise NotDrained(f"one replica is at {dict(first.progress)}, another at {dict(other.progress)}")
        tables = {
            section: sorted((table for each in states for table in each.tables[section]), key=lambda t: -t.num_rows)
            for section in first.tables
        }
        return StateRows(
            tables,
            first.progress,
            {name: max(each.highest[name] for each in states) for name in first.highest},
            {name: min(each.lowest[name] for each in states) for name in first.lowest},
            {name: sum(each.counts[name] for each in states) for name in first.counts},
        )

    def divided(self, keys: Mapping[str, StateKeys], locate: Locate, replicas: int) -> list[StateRows]:
        """The parts of the state that belong to each replica."""
        shares: list[dict[str, list[pa.Table]]] = [{name: [] for name in self.tables} for _ in range(replicas)]
        for section, tables in self.tables.items():
            for table in tables:
                owners = locate(keys[section].of(table)) if table.num_rows else np.zeros(0, np.int64)
                for replica in np.unique(owners).tolist():
                    shares[replica][section].append(table.filter(pa.array(owners == replica)).combine_chunks())
        nothing = dict.fromkeys(self.counts, 0)
        return [
            StateRows(share, self.progress, self.highest, self.lowest, nothing if replica else self.counts)
            for replica, share in enumerate(shares)
        ]


@runtime_checkable
class Divisible(Protocol):
    """A live operator whose state can be divided by key. Both methods convert snapshots and use no state."""

    @property
    def state_keys(self) -> Mapping[str, StateKeys]:
        """The keys in the tables of each section."""
        ...

    def opened(self, snapshot: Snapshot) -> StateRows:
        """Converts a snapshot of such an operator to rows."""
        ...

    def closed(self, rows: StateRows) -> Snapshot:
        """Converts rows to a snapshot: the inverse of `opened`."""
        ...


def run_tables(prefix: str, parts: Mapping[str, pa.Table], meta: Mapping[str, Any], gone: bool) -> list[pa.Table]:
    """The rows in a snapshot of `Runs`, with their flags as the last column; `gone`: without flagged rows."""
    found = []
    for number, version in meta["runs"]:
        table = parts[f"{prefix}-{number}"]
        flags = parts.get(f"{prefix}-{number}-flags-{version}")
        flag = pa.chunked_array([pa.array(np.zeros(table.num_rows, bool))]) if flags is None else flags.column(0)
        table = table.append_column("flag", flag)
        if gone and flags is not None:
            table = table.filter(pa.compute.invert(flag))
        found.append(table.combine_chunks())
    return found


def run_parts(prefix: str, tables: Sequence[pa.Table], bound: int) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The parts and the metadata of a snapshot of `Runs` with these rows."""
    parts: dict[str, pa.Table] = {}
    kept = [table for table in tables if table.num_rows]
    for number, table in enumerate(kept, 1):
        width = table.num_columns - 1
        parts[f"{prefix}-{number}"] = table.select(list(range(width)))
        parts[f"{prefix}-{number}-flags-0"] = pa.table({"flag": table.column(width)})
    return parts, {"runs": [[n, 0] for n in range(1, len(kept) + 1)], "next": len(kept), "bound": bound}
