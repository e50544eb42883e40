"""The metrics of a network: figures per query, class, unit and operator, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any

from headgate.operators.batch import FOREVER, NEVER
from headgate.runtime.latency import Latency
from headgate.runtime.limits import memory_use
from headgate.runtime.loop import Loop
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.state import NetworkState

DECISIONS = 30
"""Newest decisions of the policy that the metrics contain; the driver keeps more."""


def network_metrics(state: NetworkState, mode: str, stuck: float) -> dict[str, Any]:
    """All figures of a network; a grant that runs longer than `stuck` is reported as stuck. Called under the lock."""
    loop, now = state.loop, state.clock()
    loop.prepare()
    return {
        "policy": str(state.policy),
        "mode": mode,
        "waiting": state.waiting,
        "memory": _memory(state.memory),
        "performance": asdict(loop.view.performance),
        "scheduling": {"decisions": loop.scheduler.decisions, "grants": state.grants, "seconds": state.seconds},
        "running": [
            {
                "unit": state.unit_name(flow.unit),
                "seconds": now - flow.since,
                "stuck": now - flow.since > stuck,
            }
            for flow in state.control.running.values()
        ],
        "watermarks": {s: w for s, w in state.watermarks.items() if w not in (NEVER, FOREVER)},
        "queries": _queries(state),
        "classes": _classes(loop, state.outboxes),
        "units": _units(loop),
        "operators": _operators(loop),
        "decisions": list(state.policy.decisions())[-DECISIONS:],
    }


def _operators(loop: Loop) -> list[dict[str, Any]]:
    """Each operator: rows, time, estimates of cost, selectivity and rate, its queues, state and late rows."""
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


def _units(loop: Loop) -> list[dict[str, Any]]:
    """Each unit of the present cut: its operators and class, its queues, and the cost of its grants."""
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


def _queries(state: NetworkState) -> dict[str, dict[str, Any]]:
    """Each query: results, latency, waiting rows, memory, late rows, and its error."""
    loop, topology = state.loop, state.wiring.topology
    use = memory_use(state.wiring, state.memory, state.outboxes)
    found: dict[str, dict[str, Any]] = {}
    for name, outbox in state.outboxes.items():
        failed = name in state.failures
        found[name] = {
            "class": outbox.query.cls.name,
            "state": "failed" if failed else _phase(outbox, name in state.graph.queries),
            "error": str(state.failures[name]) if failed else None,
            "rows": outbox.rows,
            "unpublished": sum(queued.count for queued in outbox.waiting),
            "latency": outbox.latency.figures(),
            "queue_rows": 0,
            "waiting_bytes": int(use[name].waiting),
            "state_bytes": int(use[name].state),
            "late": 0,
            "dropped": outbox.dropped,
            "offered": outbox.offered,
            "shed": outbox.shed,
            "oldest": 0.0,
        }
    now, oldest = state.clock(), loop.view.queues.oldest
    for o, stage in enumerate(loop.wiring.stages):
        waiting = sum(loop.wiring.queues[e].rows for e in topology.inputs[o])
        for q in topology.serves[o]:
            query = found[topology.queries[q].name]
            query["queue_rows"] += waiting
            query["late"] += stage.live.late_rows
            first = min((oldest[e] for e in topology.inputs[o]), default=inf)
            query["oldest"] = max(query["oldest"], now - first)
    return found


def _phase(outbox: Outbox, known: bool) -> str:
    return "stopped" if not known else "paused" if outbox.query.pause else "running"


def _classes(loop: Loop, outboxes: Mapping[str, Outbox]) -> dict[str, dict[str, Any]]:
    """Each class: its priority, results, latency, the rows waiting for its units, and the seconds that its queries have
    taken; those of a shared operator are divided among its queries."""
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
    seconds = dict.fromkeys(merged, 0.0)
    for o, stage in enumerate(loop.wiring.stages):
        for q in topology.serves[o]:
            seconds[outboxes[topology.queries[q].name].query.cls.name] += stage.spent / len(topology.serves[o])
    return {
        name: {
            "priority": priorities[name],
            "rows": latency.rows,
            "latency": latency.figures(),
            "queue_rows": waiting[name],
            "seconds": seconds[name],
        }
        for name, latency in merged.items()
    }


def _memory(memory: Memory) -> dict[str, Any]:
    """Memory in use, the limit, and what was spilled and read back since the start."""
    return {
        "bytes": memory.bytes,
        "peak": memory.peak,
        "limit": None if memory.limit == inf else memory.limit,
        "spilled_bytes": memory.spilled_bytes,
        "spilled_batches": memory.spilled_batches,
        "read_batches": memory.read_batches,
        "trouble": memory.trouble,
    }
