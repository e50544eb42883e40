"""The whole network as a manifest and parts in the store, and back.

A manifest consists of plain values for JSON and names the parts it needs under "parts". Waiting rows are parts: each is
written once, by spilling or by a snapshot, whichever comes first. So is each part of an operator's state: a part that
the previous snapshot has is not written again. Rows and state are exact; the figures that people and policies read
(counts of rows, costs, latencies) may be a second old.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headgate.runtime import shedding
from headgate.runtime.current import feed_current_rows
from headgate.runtime.dataflow import Wiring, plan_key
from headgate.runtime.latency import Latency
from headgate.runtime.limits import Failure
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import OUTBOX, EdgeQueue, Piece, QueuedBatch, QueuedWatermark
from headgate.runtime.state import NetworkState
from headgate.scheduling import Performance
from headgate.scheduling.registry import described

VERSION = 3
_READABLE = (2, VERSION)
"""The versions that `restore` takes."""


def save(state: NetworkState) -> dict[str, Any]:
    """Writes everything that was not written before, and describes the network. Called while no grant runs."""
    wiring = state.wiring
    items = ManifestItems(state.memory)
    queues = {key: items.runs(queue) for key, queue in zip(wiring.edge_keys, wiring.queues, strict=True) if queue}
    outboxes = {
        name: [items.place(queued) for queued in outbox.waiting]
        for name, outbox in state.outboxes.items()
        if outbox.waiting
    }
    operators = state.state_parts.save(wiring.stages)
    batches = items.write()
    return {
        "version": VERSION,
        "parts": parts_of(batches, operators),
        "batches": batches,
        "items": items.items,
        "queues": queues,
        "outboxes": outboxes,
        "operators": operators,
        "performance": asdict(state.loop.view.performance),
        "figures": state.saved_figures.text(state),
        "dropped": {name: outbox.dropped for name, outbox in state.outboxes.items() if outbox.dropped},
        # Not in snapshots of earlier versions.
        "shedding": shedding.saved(state.loop.shedding),
        "watermarks": dict(state.watermarks),
        "marked": dict(state.sent),
        "policy": {"text": described(state.policy), "state": state.policy.state()},
        "failures": [failure.state() for failure in state.failures.values()],
    }


def restore(state: NetworkState, manifest: Mapping[str, Any]) -> None:
    """Fills a new network from a manifest. Called while no grant runs.

    State of operators and queries that the graph no longer has is left out. Raises ValueError if another version of
    Headgate wrote the manifest.
    """
    if manifest.get("version") not in _READABLE:
        raise ValueError(
            f"the snapshot has version {manifest.get('version')}, this Headgate reads versions"
            f" {' and '.join(map(str, _READABLE))}; start from an empty checkpoint, or with the version that wrote it"
        )
    if manifest["version"] == 2:
        manifest = _from_version_2(manifest)
    for known in manifest["failures"]:
        failure = Failure(**known)
        query = state.graph.queries.get(failure.query)
        if query is not None and plan_key(query) == failure.plan:
            state.failures[failure.query] = failure
            state.graph.remove(failure.query)
    known = manifest["policy"]
    # Another policy, or the same one with other parameters, starts fresh.
    if "state" in known and known["text"] == described(state.policy):
        state.policy.restore(known["state"])
    state.rebuild()
    state.watermarks.update(manifest["watermarks"])
    state.sent.update(manifest["marked"])
    for stage in state.wiring.stages:
        if stage.key in manifest["operators"]:
            state.state_parts.load(stage, manifest["operators"][stage.key])
    figures = json.loads(manifest["figures"])
    _restore_counters(state.wiring, figures["counters"])
    for name, dropped in manifest.get("dropped", {}).items():
        if name in state.outboxes:
            state.outboxes[name].dropped = dropped
    state.loop.shedding = shedding.restored(manifest.get("shedding", ()), state.outboxes)
    _restore_batches(state, manifest)
    _restore_outboxes(state.outboxes, figures["outboxes"])
    feed_current_rows(state, state.graph.queries.keys() - figures["outboxes"].keys())
    # Again, now that rows wait: the scheduler and the statistics start from them.
    state.rebuild(figures["statistics"])
    state.loop.view.performance = Performance(**manifest["performance"])


class ManifestItems:
    """The batches, pieces and watermarks of a manifest that is being written: each once, by its number."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._places: dict[int, int] = {}
        self._batches: list[QueuedBatch] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self.items: list[list[Any]] = []
        """The items in queues: [batch, from row, to row] or ["mark", watermark, since]."""

    def runs(self, queue: EdgeQueue) -> list[list[int]]:
        """The items of a queue as runs of consecutive numbers, [first, last].

        The queues of a fork hold the same items except those that each has read, so this stays short.
        """
        runs: list[list[int]] = []
        for item in queue:
            number = self._number(item)
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return runs

    def _number(self, item: Piece | QueuedWatermark) -> int:
        """The number of an item, the same in every queue in which it waits."""
        key = (item.queued.order, item.start, item.stop) if isinstance(item, Piece) else (id(item), -1, -1)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.items)
            if isinstance(item, Piece):
                self.items.append([self.place(item.queued), item.start, item.stop])
            else:
                self.items.append(["mark", item.time, item.since])
        return found

    def place(self, queued: QueuedBatch) -> int:
        """The number of a batch."""
        found = self._places.setdefault(queued.order, len(self._batches))
        if found == len(self._batches):
            self._batches.append(queued)
        return found

    def write(self) -> list[dict[str, Any]]:
        """Writes the batches that were never written and describes all of them."""
        for file in self._memory.files_of(queued for queued in self._batches if queued.part is None):
            self._memory.store.write(file.part, file.rows)
            self._memory.written(file)
        return [
            {
                "part": queued.part,
                "index": queued.index,
                "rows": queued.count,
                "arrival": [queued.arrival.count, queued.arrival.total, queued.arrival.first],
                "watermark": queued.watermark,
            }
            for queued in self._batches
        ]


class RestoredBatches:
    """The batches of a manifest that is being restored: their rows stay in the store until they are read."""

    def __init__(self, described: Sequence[Mapping[str, Any]]) -> None:
        self._described = described
        self._batches: dict[int, QueuedBatch] = {}

    def reader(self, place: int, cls: int) -> QueuedBatch:
        """The batch with this number, with one more reader of a class."""
        queued = self._batches.get(place)
        if queued is None:
            queued = self._batches[place] = QueuedBatch.stored(self._described[place])
        queued.readers += 1
        queued.cls = min(queued.cls, cls)
        return queued

    def adopt(self, memory: Memory) -> None:
        """All readers are known: the memory takes over the batches, oldest first."""
        for place in sorted(self._batches):
            memory.adopt(self._batches[place])


def _restore_batches(state: NetworkState, manifest: Mapping[str, Any]) -> None:
    """Fills queues and outboxes."""
    wiring, topology = state.wiring, state.wiring.topology
    batches = RestoredBatches(manifest["batches"])
    # One object for all queues in which a watermark waits, as before.
    items: list[QueuedWatermark | Sequence[int]] = [
        QueuedWatermark(item[1], item[2]) if item[0] == "mark" else item for item in manifest["items"]
    ]
    for edge, (key, queue) in enumerate(zip(wiring.edge_keys, wiring.queues, strict=True)):
        cls = topology.operator_class[topology.edges[edge].consumer]
        for first, last in manifest["queues"].get(key, ()):
            for item in items[first : last + 1]:
                if isinstance(item, QueuedWatermark):
                    queue.put_watermark(item)
                else:
                    queue.put_piece(Piece(batches.reader(item[0], cls), item[1], item[2]))
    for name, outbox in state.outboxes.items():
        outbox.waiting = [batches.reader(place, OUTBOX) for place in manifest["outboxes"].get(name, ())]
    batches.adopt(state.memory)


def _restore_outboxes(outboxes: Mapping[str, Outbox], state: Mapping[str, Any]) -> None:
    for name, outbox in outboxes.items():
        if name in state:
            outbox.rows = state[name]["rows"]
            outbox.latency = Latency.of(state[name]["latency"])
        else:
            # Results that were moved from another replica have no figures.
            outbox.rows = sum(queued.count for queued in outbox.waiting)


def _restore_counters(wiring: Wiring, state: Mapping[str, Sequence[float]]) -> None:
    for stage in wiring.stages:
        if stage.key in state:
            known = state[stage.key]
            stage.rows_in, stage.rows_out, stage.runs = int(known[0]), int(known[1]), int(known[2])
            stage.seconds, stage.timed, stage.width = float(known[3]), stage.rows_in, float(known[-1])


def _from_version_2(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Version 2 has the figures beside the other fields, and the policy's state as a pickle, which is not read."""
    figures = {name: manifest[name] for name in ("counters", "outboxes", "statistics")}
    outboxes = {name: outbox["batches"] for name, outbox in manifest["outboxes"].items()}
    return {**manifest, "outboxes": outboxes, "figures": json.dumps(figures)}


def parts_of(batches: Sequence[Mapping[str, Any]], operators: Mapping[str, Any]) -> list[str]:
    """The keys of all parts that a manifest needs, each once."""
    found = {batch["part"]: None for batch in batches}
    for state in operators.values():
        found.update(dict.fromkeys(part["key"] for part in state["parts"].values() if part["key"] is not None))
    return list(found)
