"""The screen of a running engine, and the plain lines printed instead if there is no terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text


def screen(metrics: Mapping[str, Any], rows: int) -> Group:
    """The totals, and the queries by descending priority of their class, as many as fit into `rows` lines."""
    table = Table(expand=True, pad_edge=False, box=None, header_style="bold")
    table.add_column("class")
    table.add_column("query", ratio=2)
    for column in ("results", "p50", "p99", "waiting", "memory", "spec", "state"):
        table.add_column(column, justify="right")
    queries = _ordered(metrics)
    shown = queries[: max(rows - 7, 1)]
    for name, query in shown:
        failed = query["state"] == "failed"
        latency = query["latency"]
        table.add_row(
            query["class"],
            Text(name, style="red" if failed else ""),
            f"{query['published']:,}",
            duration(latency["p50"]),
            duration(latency["p99"]),
            f"{query.get('queue_rows', 0):,}",
            size(query.get("waiting_bytes", 0) + query.get("state_bytes", 0)),
            _spec(query.get("spec"), query.get("shed_share") or 0.0),
            Text(query["state"], style="red" if failed else "green" if query["state"] == "running" else "dim"),
        )
    more = len(queries) - len(shown)
    lines: list[Any] = [Text(_head(metrics), style="bold"), table]
    if more:
        lines.append(Text(f"… and {more} more queries", style="dim"))
    if metrics.get("decision"):
        lines.append(Text(decision_text(metrics["decision"]), style="dim"))
    lines += [Text(f"{name}: {query['error']}", style="red") for name, query in shown if query["error"]]
    return Group(*lines)


def line(metrics: Mapping[str, Any]) -> str:
    """The state in one line: totals, then each class."""
    classes = sorted(metrics["classes"].items(), key=lambda item: -item[1]["priority"])
    classes_text = [
        f"{name} p50 {duration(c['latency']['p50'])} p99 {duration(c['latency']['p99'])}" for name, c in classes
    ]
    decided = [f"last decision: {decision_text(metrics['decision'])}"] if metrics.get("decision") else []
    return " · ".join([_head(metrics), *classes_text, *decided])


def decision_text(decision: Mapping[str, Any]) -> str:
    """A decision in one line.

    >>> decision_text({"at": 0.0, "kind": "policy", "subject": "critical", "chosen": "chain", "before": "fifo",
    ...     "reason": "the best score for delay 100%"})
    '00:00:00 policy of critical: fifo → chain (the best score for delay 100%)'
    """
    at = datetime.fromtimestamp(decision["at"], UTC).strftime("%H:%M:%S")
    subject = f" of {decision['subject']}" if decision["subject"] else ""
    before = f"{decision['before']} → " if decision["before"] else ""
    return f"{at} {decision['kind']}{subject}: {before}{decision['chosen']} ({decision['reason']})"


def duration(seconds: float) -> str:
    """A duration as text.

    >>> duration(0.0123), duration(2.5), duration(0)
    ('12 ms', '2.5 s', '–')
    """
    if seconds <= 0:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def size(count: float) -> str:
    """A number of bytes as text.

    >>> size(0), size(2048), size(3 << 20)
    ('–', '2 KiB', '3 MiB')
    """
    if count <= 0:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def spec_text(spec: Mapping[str, Any] | None) -> str:
    """The measured and the requested values of a spec, and the share of time in which it was met.

    >>> latency = {"asked": 0.5, "allowed": 0.55, "measured": 0.41, "met": True, "margin": 0.18}
    >>> spec_text({"met": True, "latency": latency, "share_met": 0.97})
    '410 ms of 500 ms, met 97%'
    >>> spec_text({"met": False, "latency": {**latency, "measured": 3.0, "best": 2.0}, "share_met": None})
    '3.0 s of 500 ms (best reachable 2.0 s)'
    """
    if spec is None:
        return ""
    parts = []
    for name, show in (("latency", duration), ("memory", size), ("accuracy", _percent)):
        if name in spec:
            measured = spec[name]["measured"]
            best = f" (best reachable {show(spec[name]['best'])})" if "best" in spec[name] else ""
            parts.append(f"{'–' if measured is None else show(measured)} of {show(spec[name]['asked'])}{best}")
    if spec["share_met"] is not None:
        parts.append(f"met {_percent(spec['share_met'])}")
    return ", ".join(parts)


def _spec(spec: Mapping[str, Any] | None, shed: float) -> Text:
    style = "" if spec is None or spec["met"] is None else "green" if spec["met"] else "red"
    return Text(spec_text(spec) + (f", {_percent(shed)} shed" if shed else ""), style=style)


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _head(metrics: Mapping[str, Any]) -> str:
    memory = metrics.get("memory", {})
    parts = [
        f"policy {metrics['policy']}",
        f"epoch {metrics['epochs']:,} ({metrics['epochs_per_second']:.1f}/s)",
        f"waiting {metrics['waiting']:,} rows, {size(memory.get('bytes', 0))}",
    ]
    if "pace" in metrics:
        parts.append(_pace(metrics["pace"]))
    specs = [query["spec"]["met"] for query in metrics["queries"].values() if query.get("spec")]
    if specs:
        parts.append(f"specs {len(specs) - specs.count(False)} of {len(specs)} met")
    weights = {name: each["weight"] for name, each in metrics.get("objectives", {}).items() if each["weight"]}
    if weights:
        parts.append("objectives " + ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items()))
    if memory.get("spilled_bytes"):
        parts.append(f"spilled {size(memory['spilled_bytes'])}")
    dead = sum(metrics["dead_letters"].values())
    if dead:
        parts.append(f"malformed {dead:,}")
    return " · ".join(parts)


def _pace(pace: Mapping[str, Any]) -> str:
    """The pauses between epochs and their reason."""
    return f"pause {duration(pace['pause'])} ({pace['reason']}; {pace['trigger_cores']:.2f} cores)"


def _ordered(metrics: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    priority = {name: c["priority"] for name, c in metrics["classes"].items()}
    return sorted(metrics["queries"].items(), key=lambda item: (-priority[item[1]["class"]], item[0]))
