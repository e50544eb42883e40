"""The metrics of an engine in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

TYPE = "text/plain; version=0.0.4; charset=utf-8"

_QUANTILES = {"p50": "0.5", "p99": "0.99"}
_STATES = ("running", "paused", "stopped", "failed")

Sample = tuple[Mapping[str, str], float]


def exposition(metrics: Mapping[str, Any], up: bool, followers: int) -> str:
    """All metrics as text."""
    lines: list[str] = []

    def metric(name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
        found = list(samples)
        if found:
            lines.extend((f"# HELP headgate_{name} {about}", f"# TYPE headgate_{name} {kind}"))
            lines.extend(f"headgate_{name}{_labels(labels)} {_number(value)}" for labels, value in found)

    queries, classes = metrics.get("queries", {}), metrics.get("classes", {})
    memory, scheduling = metrics.get("memory", {}), metrics.get("scheduling", {})

    def each_query(*path: str) -> list[Sample]:
        found = ((name, query, _at(query, path)) for name, query in queries.items())
        return [({"query": name, "class": q["class"]}, float(value)) for name, q, value in found if value is not None]

    def totals(figures: Mapping[str, Any], name: str) -> list[Sample]:
        return [({}, float(figures[name]))] if figures.get(name) is not None else []

    metric("up", "gauge", "Whether the engine runs.", [({}, float(up))])
    metric("policy_info", "gauge", "The present policy.", [({"policy": str(metrics.get("policy", ""))}, 1.0)])
    metric("followers", "gauge", "Clients that follow results or metrics.", [({}, float(followers))])
    metric("epochs_total", "counter", "Epochs since the start.", totals(metrics, "epochs"))
    metric("restores_total", "counter", "Epochs that restored the state.", totals(metrics, "restores"))
    metric("waiting_rows", "gauge", "Rows that wait in queues.", totals(metrics, "waiting"))
    metric("memory_bytes", "gauge", "Bytes of rows that wait in memory.", totals(memory, "bytes"))
    metric("memory_limit_bytes", "gauge", "Bytes above which rows are spilled.", totals(memory, "limit"))
    metric("spilled_bytes_total", "counter", "Bytes spilled to files.", totals(memory, "spilled_bytes"))
    metric("grants_total", "counter", "Grants of the scheduler.", totals(scheduling, "grants"))
    metric("work_seconds_total", "counter", "Seconds that units have run.", totals(scheduling, "seconds"))
    read = metrics.get("read", {})
    metric(
        "stream_rows_total",
        "counter",
        "Rows of a stream that entered the network.",
        [({"stream": name}, float(rows)) for name, rows in read.items()],
    )
    dead = metrics.get("dead_letters", {})
    metric(
        "dead_letters_total",
        "counter",
        "Malformed rows of a stream.",
        [({"stream": name}, float(rows)) for name, rows in dead.items()],
    )
    metric("query_results_total", "counter", "Rows of results at the sinks.", each_query("published"))
    metric("query_late_rows_total", "counter", "Rows that came too late.", each_query("late"))
    metric("query_queue_rows", "gauge", "Rows that wait for the query.", each_query("queue_rows"))
    metric("query_waiting_bytes", "gauge", "Bytes that wait for the query.", each_query("waiting_bytes"))
    metric("query_state_bytes", "gauge", "Bytes of the query's state.", each_query("state_bytes"))
    metric("query_spec_met", "gauge", "Whether the spec of the query is met.", each_query("spec", "met"))
    metric(
        "query_state",
        "gauge",
        "1 for the state that the query is in.",
        [
            ({"query": name, "class": query["class"], "state": state}, float(query["state"] == state))
            for name, query in queries.items()
            for state in dict.fromkeys((*_STATES, query["state"]))
        ],
    )
    metric(
        "query_latency_seconds",
        "gauge",
        "Seconds from the arrival of a row until its result is at the sinks, since the start.",
        [
            ({"query": name, "class": query["class"], "quantile": quantile}, float(query["latency"][key]))
            for name, query in queries.items()
            for key, quantile in _QUANTILES.items()
        ],
    )
    metric(
        "class_latency_seconds",
        "gauge",
        "The same, of all queries of a class.",
        [
            ({"class": name, "quantile": quantile}, float(figures["latency"][key]))
            for name, figures in classes.items()
            for key, quantile in _QUANTILES.items()
        ],
    )
    metric(
        "class_queue_rows",
        "gauge",
        "Rows that wait for the units of a class.",
        [({"class": name}, float(each["queue_rows"])) for name, each in classes.items() if "queue_rows" in each],
    )
    recent = metrics.get("recent", {})
    metric(
        "class_recent_latency_seconds",
        "gauge",
        "The latency of a class over the last second.",
        [
            ({"class": name, "quantile": quantile}, float(each[key]))
            for name, each in recent.items()
            for key, quantile in _QUANTILES.items()
            if each[key] is not None
        ],
    )
    return "\n".join(lines) + "\n"


def _at(figures: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        figures = figures.get(name) if isinstance(figures, Mapping) else None
    return figures


def _labels(labels: Mapping[str, str]) -> str:
    r"""Labels with their values escaped.

    >>> _labels({"query": 'a"b\\c'})
    '{query="a\\"b\\\\c"}'
    """
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """A number in full, without a fraction where there is none.

    >>> _number(3.0), _number(0.25), _number(1e17)
    ('3', '0.25', '100000000000000000')
    """
    return str(int(value)) if value == int(value) else repr(value)
