"""The state of live operators as parts in the store: a snapshot writes only the parts that changed."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headgate.operators.contract import Snapshot
from headgate.runtime.dataflow import Stage
from headgate.runtime.flight import UNIT, FlightRecord, Unrecorded, mark_of
from headgate.runtime.memory import Memory
from headgate.runtime.store import Store

MEASURE_EVERY = 2.0
"""Seconds, at least, between two measurements of the sizes of all states."""


class StateParts:
    """Writes and reads the state of operators, and remembers which parts are written. Used while no grant runs.

    The key of a part has a prefix that is new for every live operator, because another one with the same key numbers
    its parts from the start again. Parts that were restored keep their keys.
    """

    def __init__(self, memory: Memory, record: FlightRecord | None = None) -> None:
        self._memory = memory
        self._record = record or Unrecorded()
        # Of the states restored so far: the stage, the bytes.
        self._largest = (0, 0)
        self._measured = 0.0
        self._prefixes: dict[str, str] = {}
        self._written: dict[str, dict[str, Any]] = {}

    def forget(self, keys: Iterable[str]) -> None:
        """Discards the parts of operators that are gone."""
        for key in keys:
            self._prefixes.pop(key, None)
            for part in self._written.pop(key, {}).values():
                if part["key"] is not None:
                    self._memory.store.discard(part["key"])

    def save(self, stages: Sequence[Stage]) -> dict[str, Any]:
        """Writes the parts that are new and describes the state of each operator that has any."""
        found: dict[str, Any] = {}
        self._measure(stages)
        for stage in stages:
            with self._recorded(stage):
                state = stage.live.snapshot()
                if not state.parts and not state.meta:
                    continue
                before = self._written.get(stage.key, {})
                now = {
                    name: before.get(name) or self._write(stage.key, name, table) for name, table in state.parts.items()
                }
            self._written[stage.key] = now
            for name, part in before.items():
                if name not in now and part["key"] is not None:
                    self._memory.store.discard(part["key"])
            found[stage.key] = {"parts": now, "meta": dict(state.meta)}
        return found

    @contextmanager
    def _recorded(self, stage: Stage) -> Iterator[None]:
        """Names the stage in the flight record: a state that does not fit into memory twice ends the process here."""
        slot = self._record.slot()
        slot[UNIT] = mark_of(stage.key)
        try:
            yield
        finally:
            slot[UNIT] = 0

    def _measure(self, stages: Sequence[Stage]) -> None:
        """Notes the largest state in the flight record."""
        now = time.monotonic()
        if now - self._measured < MEASURE_EVERY:
            return
        self._measured = now
        size, key = max(((stage.live.state_bytes, stage.key) for stage in stages), default=(0, "0"))
        self._record.note_largest_state(mark_of(key), size)

    def load(self, stage: Stage, state: Mapping[str, Any]) -> None:
        """Restores the state of a new live operator."""
        with self._recorded(stage):
            parts = {name: self._read(part) for name, part in state["parts"].items()}
            stage.live.restore(Snapshot(parts, state["meta"]))
            size = stage.live.state_bytes
        self._written[stage.key] = dict(state["parts"])
        if size > self._largest[1]:
            self._largest = (mark_of(stage.key), size)
            self._record.note_largest_state(*self._largest)

    def _write(self, stage: str, name: str, table: pa.Table) -> dict[str, Any]:
        prefix = self._prefixes.setdefault(stage, new_prefix(stage))
        return write_part(self._memory.store, f"{prefix}-{name}", table)

    def _read(self, part: Mapping[str, Any]) -> pa.Table:
        return read_part(self._memory.store, part)


def new_prefix(stage: str) -> str:
    """The beginning of the keys of an operator's parts, different for every live operator."""
    return f"{stage}-{uuid.uuid4().hex[:8]}"


def write_part(store: Store, key: str, table: pa.Table) -> dict[str, Any]:
    """Writes a part of an operator's state, unless it has no rows, and describes it for the manifest."""
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if not batches:
        schema = base64.b64encode(table.schema.serialize().to_pybytes()).decode()
        return {"key": None, "count": 0, "schema": schema}
    store.write(key, batches)
    return {"key": key, "count": len(batches)}


def read_part(store: Store, part: Mapping[str, Any]) -> pa.Table:
    """The part that a manifest describes."""
    if part["count"]:
        return pa.Table.from_batches([store.read(part["key"], i) for i in range(part["count"])])
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(part["schema"]))).empty_table()
