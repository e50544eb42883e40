"""The whole network as a manifest and parts in the store, and back.

A manifest is plain values that JSON takes; it names the parts it needs under "parts". Rows that wait are parts, written
once however many snapshots they live through, and by spilling or by a snapshot, whichever comes first. So is each part
of an operator's state: a part that the last snapshot has is not written again.
"""

from __future__ import annotations

import base64
import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from headgate.operators.contract import Snapshot
from headgate.runtime.held import OUTBOX, Held
from headgate.runtime.latency import Latency
from headgate.runtime.loop import Loop
from headgate.runtime.memory import Memory, in_files
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import EdgeQueue, Piece, Watermark
from headgate.runtime.stage import Stage
from headgate.runtime.wiring import Wiring
from headgate.scheduling import Policy

VERSION = 2


class Waiting:
    """The batches, pieces and watermarks that a manifest speaks of: each once, by its place in a list."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._places: dict[int, int] = {}
        self._held: list[Held] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self.items: list[list[Any]] = []
        """What waits in queues: [batch, from row, to row] and ["mark", watermark, since]."""

    def item(self, item: Piece | Watermark) -> int:
        """The number by which the manifest knows something that waits, also if it does so in several queues."""
        key = (item.held.order, item.start, item.stop) if isinstance(item, Piece) else (id(item), -1, -1)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.items)
            if isinstance(item, Piece):
                self.items.append([self.place(item.held), item.start, item.stop])
            else:
                self.items.append(["mark", item.time, item.since])
        return found

    def place(self, held: Held) -> int:
        """The number by which the manifest knows a batch."""
        found = self._places.setdefault(held.order, len(self._held))
        if found == len(self._held):
            self._held.append(held)
        return found

    def write(self) -> list[dict[str, Any]]:
        """Writes what was never written and describes all."""
        for group in in_files([held for held in self._held if held.part is None]):
            key = self._memory.new_key()
            self._memory.store.write(key, [held.batch.rows for held in group if held.batch is not None])
            self._memory.written(group, key)
        return [
            {
                "part": held.part,
                "index": held.index,
                "rows": held.count,
                "arrival": [held.arrival.count, held.arrival.total, held.arrival.first],
                "watermark": held.watermark,
            }
            for held in self._held
        ]


def queue_state(queue: EdgeQueue, waiting: Waiting) -> list[list[int]]:
    """What waits on an edge: items from this to that one, and so on.

    The queues of a fork hold the same, but for what each has read already, so this stays short however much waits.
    """
    runs: list[list[int]] = []
    for each in queue:
        number = waiting.item(each)
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def outbox_state(outbox: Outbox, waiting: Waiting) -> dict[str, Any]:
    """The results that were not taken yet, and what was counted."""
    return {
        "batches": [waiting.place(held) for held in outbox.waiting],
        "rows": outbox.rows,
        "latency": outbox.latency.state(),
    }


class Brought:
    """The batches of a manifest as they are taken back: their rows stay in the store until someone reads them."""

    def __init__(self, memory: Memory, described: Sequence[Mapping[str, Any]]) -> None:
        self._memory = memory
        self._described = described
        self._held: dict[int, Held] = {}

    def reader(self, place: int, cls: int) -> Held:
        """The batch at a place of the manifest, with one more reader of a class."""
        held = self._held.get(place)
        if held is None:
            held = self._held[place] = Held.absent(self._described[place])
        held.readers += 1
        held.cls = min(held.cls, cls)
        return held

    def finish(self) -> None:
        """All readers are there: the memory takes the batches over, oldest first."""
        for place in sorted(self._held):
            self._memory.adopt(self._held[place])


def fill_queue(
    queue: EdgeQueue,
    state: Sequence[Sequence[int]],
    items: Sequence[Watermark | Sequence[int]],
    brought: Brought,
    cls: int,
) -> None:
    """Takes back what waited on an edge."""
    for first, last in state:
        for item in items[first : last + 1]:
            if isinstance(item, Watermark):
                queue.put_watermark(item)
            else:
                queue.put_piece(Piece(brought.reader(item[0], cls), item[1], item[2]))


def fill_outbox(outbox: Outbox, state: Mapping[str, Any], brought: Brought) -> None:
    """Takes back results that were not taken."""
    outbox.waiting = [brought.reader(place, OUTBOX) for place in state["batches"]]
    outbox.rows = state["rows"]
    outbox.latency = Latency.of(state["latency"])


class States:
    """The state of the operators in the store; remembers what it wrote, so that the next snapshot writes what changed.

    A part's key has a prefix that is new with every live operator, as another that does the same counts its parts from
    the start again. Parts that were taken back keep the keys that they had.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._prefixes: dict[str, str] = {}
        self._written: dict[str, dict[str, Any]] = {}

    def forget(self, keys: Sequence[str]) -> None:
        """These operators are gone."""
        for key in keys:
            self._prefixes.pop(key, None)
            for part in self._written.pop(key, {}).values():
                if part["key"] is not None:
                    self._memory.store.discard(part["key"])

    def save(self, stages: Sequence[Stage]) -> dict[str, Any]:
        """Writes the parts that are new and describes the state of each operator that has any."""
        found: dict[str, Any] = {}
        for stage in stages:
            state = stage.live.snapshot()
            if not state.parts and not state.meta:
                continue
            before = self._written.get(stage.key, {})
            now = {name: before.get(name) or self._write(stage.key, name, table) for name, table in state.parts.items()}
            self._written[stage.key] = now
            for name, part in before.items():
                if name not in now and part["key"] is not None:
                    self._memory.store.discard(part["key"])
            found[stage.key] = {"parts": now, "meta": dict(state.meta)}
        return found

    def load(self, stage: Stage, state: Mapping[str, Any]) -> None:
        """Gives a new live operator its state."""
        parts = {name: self._read(part) for name, part in state["parts"].items()}
        stage.live.restore(Snapshot(parts, state["meta"]))
        self._written[stage.key] = dict(state["parts"])

    def _write(self, stage: str, name: str, table: pa.Table) -> dict[str, Any]:
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        schema = base64.b64encode(table.schema.serialize().to_pybytes()).decode()
        if not batches:
            return {"key": None, "count": 0, "schema": schema}
        prefix = self._prefixes.setdefault(stage, f"{stage}-{uuid.uuid4().hex[:8]}")
        key = f"{prefix}-{name}"
        self._memory.store.write(key, batches)
        return {"key": key, "count": len(batches), "schema": schema}

    def _read(self, part: Mapping[str, Any]) -> pa.Table:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(part["schema"])))
        store = self._memory.store
        return pa.Table.from_batches([store.read(part["key"], i) for i in range(part["count"])], schema)


def save(loop: Loop, memory: Memory, outboxes: Mapping[str, Outbox], states: States) -> dict[str, Any]:
    """Writes queues, outboxes and state, and describes them. Called when nothing runs."""
    wiring = loop.wiring
    waiting = Waiting(memory)
    queues = {
        key: queue_state(queue, waiting) for key, queue in zip(wiring.edge_keys, wiring.queues, strict=True) if queue
    }
    results = {name: outbox_state(outbox, waiting) for name, outbox in outboxes.items()}
    operators = states.save(wiring.stages)
    batches = waiting.write()
    return {
        "version": VERSION,
        "parts": parts_of(batches, operators),
        "batches": batches,
        "items": waiting.items,
        "queues": queues,
        "outboxes": results,
        "operators": operators,
        "counters": counters(wiring),
        "performance": asdict(loop.view.performance),
    }


def load(
    manifest: Mapping[str, Any], wiring: Wiring, memory: Memory, outboxes: Mapping[str, Outbox], states: States
) -> None:
    """Fills a new wiring with what a manifest describes; what has no place in it any more is left out."""
    for stage in wiring.stages:
        if stage.key in manifest["operators"]:
            states.load(stage, manifest["operators"][stage.key])
    count_on(wiring, manifest["counters"])
    brought = Brought(memory, manifest["batches"])
    topology = wiring.topology
    # A watermark is one for all queues that it waits in, as it was.
    items = [Watermark(item[1], item[2]) if item[0] == "mark" else item for item in manifest["items"]]
    for edge, (key, queue) in enumerate(zip(wiring.edge_keys, wiring.queues, strict=True)):
        cls = topology.operator_class[topology.edges[edge].consumer]
        fill_queue(queue, manifest["queues"].get(key, ()), items, brought, cls)
    for name, outbox in outboxes.items():
        if name in manifest["outboxes"]:
            fill_outbox(outbox, manifest["outboxes"][name], brought)
    brought.finish()


def parts_of(batches: Sequence[Mapping[str, Any]], operators: Mapping[str, Any]) -> list[str]:
    """The keys of all parts that a manifest needs, each once."""
    found = {batch["part"]: None for batch in batches}
    for state in operators.values():
        found.update(dict.fromkeys(part["key"] for part in state["parts"].values() if part["key"] is not None))
    return list(found)


def counters(wiring: Wiring) -> dict[str, list[float]]:
    """What each operator has counted."""
    return {s.key: [s.rows_in, s.rows_out, s.runs, s.spent, s.width] for s in wiring.stages}


def count_on(wiring: Wiring, state: Mapping[str, Sequence[float]]) -> None:
    """Lets each operator count on from where it was."""
    for stage in wiring.stages:
        if stage.key in state:
            known = state[stage.key]
            stage.rows_in, stage.rows_out, stage.runs = int(known[0]), int(known[1]), int(known[2])
            stage.seconds, stage.timed, stage.width = float(known[3]), stage.rows_in, float(known[-1])


def policy_state(policy: Policy) -> dict[str, str]:
    """A policy with what it has learned."""
    return {"text": str(policy), "pickle": base64.b64encode(pickle.dumps(policy)).decode()}


def policy_from(state: Mapping[str, str], fresh: Policy) -> Policy:
    """The policy as it was, if the network is to run under the same one; else the fresh one."""
    try:
        known = pickle.loads(base64.b64decode(state["pickle"]))
    except (AttributeError, ImportError, pickle.UnpicklingError):
        # Written by another version of Headgate: what it learned is lost, nothing else.
        return fresh
    same = isinstance(known, Policy) and type(known) is type(fresh) and _parameters(known) == _parameters(fresh)
    return known if same and isinstance(known, Policy) else fresh


def _parameters(policy: Policy) -> dict[str, str]:
    fields = getattr(policy, "__dataclass_fields__", {})
    return {name: repr(getattr(policy, name)) for name, field in fields.items() if field.init}
