"""What a network shows of itself: figures per query, class, unit and operator, all plain values."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from headgate.graph.queries import Query
from headgate.runtime.charges import Charge
from headgate.runtime.latency import Latency
from headgate.runtime.loop import Loop
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.quarantine import Failure


def operators(loop: Loop) -> list[dict[str, Any]]:
    """Each operator: what it took, gave and cost (s and bytes per row are the decayed estimates), state, late rows."""
    statistics, topology = loop.view.statistics, loop.view.topology
    return [
        {
            "name": topology.operators[o],
            "key": stage.key,
            "kind": stage.kind,
            "queries": [topology.queries[q].name for q in topology.serves[o]],
            "rows_in": stage.rows_in,
            "rows_out": stage.rows_out,
            "seconds": stage.spent,
            "cost": statistics.cost[o],
            "selectivity": statistics.selectivity[o],
            "rate": statistics.rate[o],
            "queue_rows": sum(loop.wiring.queues[e].rows for e in topology.inputs[o]),
            "queue_bytes": int(sum(loop.view.queues.bytes[e] for e in topology.inputs[o])),
            "state_rows": stage.live.state_rows,
            "state_bytes": stage.live.state_bytes,
            "late": stage.live.late_rows,
        }
        for o, stage in enumerate(loop.wiring.stages)
    ]


def units(loop: Loop) -> list[dict[str, Any]]:
    """Each unit of the present cut: its operators and class, what waits for it, and what its grants cost."""
    topology = loop.view.topology
    return [
        {
            "operators": list(topology.names(unit.operators)),
            "class": topology.classes[unit.cls].name,
            "queue_rows": sum(entry.queue.rows for entry in live.entries),
            "queue_bytes": int(sum(loop.view.queues.bytes[e] for e in unit.entries)),
            "grants": live.grants,
            "rows": live.rows,
            "seconds": live.seconds,
            "slowest": live.slowest,
        }
        for unit, live in zip(loop.scheduler.units.units, loop.units, strict=True)
    ]


def queries(
    loop: Loop,
    outboxes: Mapping[str, Outbox],
    running: Mapping[str, Query],
    failures: Mapping[str, Failure],
    charged: Mapping[str, Charge],
) -> dict[str, dict[str, Any]]:
    """Each query: results, latency, what waits for it, the memory it is charged with, late rows, and its error."""
    topology = loop.view.topology
    found: dict[str, dict[str, Any]] = {}
    for name, outbox in outboxes.items():
        found[name] = {
            "class": outbox.query.cls.name,
            "state": "failed" if name in failures else "running" if name in running else "stopped",
            "error": str(failures[name]) if name in failures else None,
            "rows": outbox.rows,
            "unpublished": sum(held.count for held in outbox.waiting),
            "latency": outbox.latency.figures(),
            "queue_rows": 0,
            "waiting_bytes": int(charged[name].waiting),
            "state_bytes": int(charged[name].state),
            "late": 0,
        }
    for o, stage in enumerate(loop.wiring.stages):
        waiting = sum(loop.wiring.queues[e].rows for e in topology.inputs[o])
        for q in topology.serves[o]:
            query = found[topology.queries[q].name]
            query["queue_rows"] += waiting
            query["late"] += stage.live.late_rows
    return found


def classes(loop: Loop, outboxes: Mapping[str, Outbox]) -> dict[str, dict[str, Any]]:
    """Each class: its priority, results and latency, and what waits for its units."""
    merged: dict[str, Latency] = {}
    priorities: dict[str, float] = {}
    for outbox in outboxes.values():
        cls = outbox.query.cls
        priorities[cls.name] = float(cls.priority)
        merged.setdefault(cls.name, Latency()).merge(outbox.latency)
    waiting = dict.fromkeys(merged, 0)
    topology = loop.view.topology
    for edge, queue in enumerate(loop.wiring.queues):
        name = topology.classes[topology.operator_class[topology.edges[edge].consumer]].name
        waiting[name] = waiting.get(name, 0) + queue.rows
    return {
        name: {
            "priority": priorities[name],
            "rows": latency.rows,
            "latency": latency.figures(),
            "queue_rows": waiting[name],
        }
        for name, latency in merged.items()
    }


def memory(held: Memory) -> dict[str, Any]:
    """Bytes held, the limit, and what was spilled and read back since the start."""
    return {
        "bytes": held.bytes,
        "peak": held.peak,
        "limit": None if held.limit == inf else held.limit,
        "spilled_bytes": held.spilled_bytes,
        "spilled_batches": held.spilled_batches,
        "read_batches": held.read_batches,
        "trouble": held.trouble,
    }
