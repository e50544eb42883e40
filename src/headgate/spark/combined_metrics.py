"""Combines the metrics of all replicas into those of one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

_RATES = {"cost": "rows_in", "selectivity": "rows_in"}
"""Estimates of an operator, averaged with another of its figures as the weight; all other numbers are summed."""

Figures = Mapping[str, Any]


def combined_metrics(parts: Sequence[Figures], key_rows: Sequence[float] = ()) -> dict[str, Any] | None:
    """Figures of several networks (`runtime/metrics.py`), in the order of the replicas; None if there are none.

    A split operator counts as one. Numbers are summed. Of latencies, the mean is that of all rows, the median is
    weighted by rows, and the 99th percentile is the worst of all replicas. "replicas" has a few figures per network.
    Each class has the share of its seconds in those of all. `key_rows`: the rows that came to each replica by keys.
    """
    if not parts:
        return None
    if len(parts) == 1:
        return {**parts[0], "classes": _with_shares(parts[0]["classes"])}
    return {
        **parts[0],
        "waiting": sum(part["waiting"] for part in parts),
        "memory": _added([part["memory"] for part in parts]),
        "performance": _added([part["performance"] for part in parts]),
        "scheduling": _added([part["scheduling"] for part in parts]),
        "running": [{**each, "replica": number} for number, part in enumerate(parts) for each in part["running"]],
        "watermarks": {stream: time for part in parts for stream, time in part["watermarks"].items()},
        "queries": _by_name([part["queries"] for part in parts], _query),
        "classes": _with_shares(_by_name([part["classes"] for part in parts], _class)),
        "units": _grouped([part["units"] for part in parts], lambda each: (tuple(each["operators"]), each["class"])),
        "operators": _grouped([part["operators"] for part in parts], lambda each: each["key"]),
        "replicas": [
            {**_replica(part), "key_share": rows / (sum(key_rows) or 1.0)}
            for part, rows in zip(parts, key_rows or [0.0] * len(parts), strict=True)
        ],
        "decisions": sorted(
            ({**each, "replica": number} for number, part in enumerate(parts) for each in part["decisions"]),
            key=itemgetter("at"),
        ),
    }


def _replica(part: Figures) -> dict[str, Any]:
    return {
        "waiting": part["waiting"],
        "seconds": part["scheduling"]["seconds"],
        "rows": sum(operator["rows_in"] for operator in part["operators"]),
        "memory": part["memory"]["bytes"],
        "queries": len(part["queries"]),
        "class_seconds": {name: each["seconds"] for name, each in part["classes"].items()},
    }


def _with_shares(classes: Mapping[str, Figures]) -> dict[str, Any]:
    """Classes with the share of each in the seconds of all."""
    total = sum(each["seconds"] for each in classes.values()) or 1.0
    return {name: {**each, "share": each["seconds"] / total} for name, each in classes.items()}


def _by_name(parts: Sequence[Figures], combine: Callable[[Sequence[Figures]], dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: combine([part[name] for part in parts if name in part]) for name in names}


def _query(parts: Sequence[Figures]) -> dict[str, Any]:
    failed = next((part for part in parts if part["error"]), parts[0])
    latency = _latency([(part["rows"], part["latency"]) for part in parts])
    return {**_added(parts), "latency": latency, "state": failed["state"], "error": failed["error"]}


def _class(parts: Sequence[Figures]) -> dict[str, Any]:
    latency = _latency([(part["rows"], part["latency"]) for part in parts])
    return {**_added(parts), "latency": latency, "priority": parts[0]["priority"]}


def _latency(parts: Sequence[tuple[int, Figures]]) -> dict[str, float]:
    rows = sum(count for count, _ in parts) or 1
    return {
        **{name: sum(count * each[name] for count, each in parts) / rows for name in ("mean", "p50")},
        **{name: max(each[name] for _, each in parts) for name in ("p99", "worst")},
    }


def _grouped(parts: Sequence[Sequence[Figures]], key: Callable[[Figures], object]) -> list[dict[str, Any]]:
    groups: dict[object, list[Figures]] = {}
    for part in parts:
        for each in part:
            groups.setdefault(key(each), []).append(each)
    return [_added(group) for group in groups.values()]


def _added(parts: Sequence[Figures]) -> dict[str, Any]:
    """Sums numbers and averages estimates by weight; everything else is taken from the first part."""
    found = dict(parts[0])
    if len(parts) == 1:
        return found
    for name, value in parts[0].items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name in ("slowest", "oldest", "staleness"):
            found[name] = max(part[name] for part in parts)
        elif name in _RATES and _RATES[name] in parts[0]:
            weights = [part[_RATES[name]] or 1e-9 for part in parts]
            found[name] = sum(w * part[name] for w, part in zip(weights, parts, strict=True)) / sum(weights)
        else:
            found[name] = sum(part[name] or 0 for part in parts)
    return found
