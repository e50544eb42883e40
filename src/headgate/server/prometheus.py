"""The metrics of an engine in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

    def total(figures: Mapping[str, Any], name: str) -> list[Sample]:
        return [({}, float(figures[name]))] if figures.get(name) is not None else []

    metric("up", "gauge", "Whether the engine runs.", [({}, float(up))])
    metric("policy_info", "gauge", "The present policy.", [({"policy": str(metrics.get("policy", ""))}, 1.0)])
    metric("followers", "gauge", "Clients that follow results or metrics.", [({}, float(followers))])
    metric("epochs_total", "counter", "Epochs since the start.", total(metrics, "epochs"))
    metric("restores_total", "counter", "Epochs that restored the state.", total(metrics, "restores"))
    metric("waiting_rows", "gauge", "Rows that wait in queues.", total(metrics, "waiting"))
    metric("memory_bytes", "gauge", "Bytes of rows that wait in memory.", total(memory, "bytes"))
    metric("memory_limit_bytes", "gauge", "Bytes above which rows are spilled.", total(memory, "limit"))
    metric("spilled_bytes_total", "counter", "Bytes spilled to files.", total(memory, "spilled_bytes"))
    metric("grants_total", "counter", "Grants of the scheduler.", total(scheduling, "grants"))
    metric("work_seconds_total", "counter", "Seconds that units have run.", total(scheduling, "seconds"))
    read, dead = metrics.get("read", {}), metrics.get("dead_letters", {})
    metric("stream_rows_total", "counter", "Rows of a stream that entered the network.", _each("stream", read))
    metric("dead_letters_total", "counter", "Malformed rows of a stream.", _each("stream", dead))
    metric("query_results_total", "counter", "Rows of results at the sinks.", _each("query", queries, "published"))
    metric("query_late_rows_total", "counter", "Rows that came too late.", _each("query", queries, "late"))
    metric("query_queue_rows", "gauge", "Rows that wait for the query.", _each("query", queries, "queue_rows"))
    metric("query_waiting_bytes", "gauge", "Bytes that wait for the query.", _each("query", queries, "waiting_bytes"))
    metric("query_state_bytes", "gauge", "Bytes of the query's state.", _each("query", queries, "state_bytes"))
    metric("query_spec_met", "gauge", "Whether the spec of the query is met.", _each("query", queries, "spec", "met"))
    metric("query_state", "gauge", "1 for the state that the query is in.", _states(queries))
    metric(
        "query_latency_seconds",
        "gauge",
        "Seconds from the arrival of a row until its result is at the sinks, since the start.",
        _quantiles("query", queries, "latency"),
    )
    metric(
        "class_latency_seconds",
        "gauge",
        "The same, of all queries of a class.",
        _quantiles("class", classes, "latency"),
    )
    metric(
        "class_queue_rows",
        "gauge",
        "Rows that wait for the units of a class.",
        _each("class", classes, "queue_rows"),
    )
    metric(
        "class_recent_latency_seconds",
        "gauge",
        "The latency of a class over the last second.",
        _quantiles("class", metrics.get("recent", {})),
    )
    return "\n".join(lines) + "\n"


def _named(label: str, name: str, figures: Any) -> dict[str, str]:
    """The labels of a stream, class or query; a query also has its class."""
    return {label: name, "class": figures["class"]} if label == "query" else {label: name}


def _each(label: str, of: Mapping[str, Any], *path: str) -> Iterator[Sample]:
    """The figure at a path of each stream, class or query that has it."""
    for name, figures in of.items():
        if (value := _at(figures, path)) is not None:
            yield _named(label, name, figures), float(value)


def _quantiles(label: str, of: Mapping[str, Any], *path: str) -> Iterator[Sample]:
    """The quantiles of the latency at a path of each class or query."""
    for name, figures in of.items():
        for key, quantile in _QUANTILES.items():
            if (value := _at(figures, (*path, key))) is not None:
                yield {**_named(label, name, figures), "quantile": quantile}, float(value)


def _states(queries: Mapping[str, Any]) -> Iterator[Sample]:
    """For each query and state, whether it is the state of the query."""
    for name, query in queries.items():
        for state in dict.fromkeys((*_STATES, query["state"])):
            yield {**_named("query", name, query), "state": state}, float(query["state"] == state)


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
    """A number in full; a whole number has no fraction.

    >>> _number(3.0), _number(0.25), _number(1e17)
    ('3', '0.25', '100000000000000000')
    """
    return str(int(value)) if value == int(value) else repr(value)
