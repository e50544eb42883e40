"""Combines the answers of all replicas to one epoch: places are concatenated, figures are summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.spark.combined_metrics import combined_metrics
from headgate.spark.messages import EpochAnswer, ExchangedRows, ExpressionFailure, HostAddress, Place, WrittenFile


@dataclass(frozen=True)
class CombinedAnswer:
    """The fields of `EpochAnswer` over all replicas; `hosts` and `snapshots` have one entry per replica, in order.

    - `inline`: the bytes of a query's parts in `results` or `newest`, if the answers have all of them
    - `reached`: the watermark that a fragment has reached on all replicas
    - `answered`: queries that answer once and are done: they have results, and no rows wait for them on any replica
    - `failures`: every query that has failed on some replica; `unknown`: failures that some replica does not know yet
    """

    epoch: int
    hosts: tuple[HostAddress, ...]
    restored: bool
    snapshots: tuple[Place, ...]
    files: tuple[str, ...]
    results: tuple[tuple[str, Place], ...]
    newest: tuple[tuple[str, Place], ...]
    unwritten: tuple[tuple[str, Place], ...]
    written: tuple[WrittenFile, ...]
    rows: Mapping[str, int]
    malformed: Mapping[str, int]
    arrivals: Mapping[str, tuple[int, float, float]]
    failures: tuple[Mapping[str, Any], ...]
    failed: Mapping[str, str]
    unknown: tuple[ExpressionFailure, ...]
    taken: int
    waiting: int
    selected: Mapping[str, tuple[int, int]]
    event_times: Mapping[str, int]
    arrived: frozenset[str]
    exchange: tuple[ExchangedRows, ...]
    reached: Mapping[str, int]
    answered: tuple[str, ...]
    seconds: Mapping[str, float]
    metrics: Mapping[str, Any] | None
    key_rows: Mapping[str, Sequence[float]]
    inline: Mapping[str, tuple[bytes, ...]]


def combined(answers: Sequence[EpochAnswer]) -> CombinedAnswer:
    """Combines all answers to one epoch, given in the order of the replicas."""
    failures = _failures(answers)
    first = answers[0]
    return CombinedAnswer(
        epoch=first.epoch,
        hosts=tuple(answer.host for answer in answers),
        restored=any(answer.restored for answer in answers),
        snapshots=tuple(answer.snapshot for answer in answers),
        files=tuple(dict.fromkeys(file for answer in answers for file in answer.files)),
        results=tuple(each for answer in answers for each in answer.results),
        newest=tuple(each for answer in answers for each in answer.newest),
        unwritten=tuple(each for answer in answers for each in answer.unwritten),
        written=tuple(each for answer in answers for each in answer.written),
        rows=_total([answer.rows for answer in answers]),
        malformed=_total([answer.malformed for answer in answers]),
        arrivals=_arrivals(answers),
        failures=tuple(failures.values()),
        failed={name: text for answer in reversed(answers) for name, text in answer.failed.items()},
        unknown=_unknown(answers, failures),
        taken=sum(answer.taken for answer in answers),
        waiting=sum(answer.waiting for answer in answers),
        selected=_selected(answers),
        event_times=_newest([answer.event_times for answer in answers]),
        arrived=frozenset(stream for answer in answers for stream in answer.arrived),
        exchange=tuple(each for answer in answers for each in answer.exchange),
        reached=_lowest([answer.reached for answer in answers]),
        answered=_answered(answers),
        # Replicas work in parallel: the epoch waited for the slowest one.
        seconds={name: max(answer.seconds[name] for answer in answers) for name in first.seconds},
        metrics=combined_metrics(
            [answer.metrics for answer in answers if answer.metrics is not None],
            [sum(map(sum, answer.key_rows.values())) for answer in answers],
        ),
        key_rows=_key_rows(answers),
        inline=_inline(answers),
    )


def _total(parts: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    if len(parts) == 1:
        return parts[0]
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found


def _key_rows(answers: Sequence[EpochAnswer]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for answer in answers:
        for name, rows in answer.key_rows.items():
            found[name] = list(map(sum, zip(found[name], rows, strict=True))) if name in found else list(rows)
    return found


def _newest(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, time in part.items():
            found[name] = max(found.get(name, time), time)
    return found


def _lowest(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, time in part.items():
            found[name] = min(found.get(name, time), time)
    return found


def _arrivals(answers: Sequence[EpochAnswer]) -> dict[str, tuple[int, float, float]]:
    found: dict[str, tuple[int, float, float]] = {}
    for answer in answers:
        for query, (count, total, first) in answer.arrivals.items():
            known = found.get(query)
            if known is None:
                found[query] = (int(count), total, first)
            else:
                found[query] = (known[0] + int(count), known[1] + total, min(known[2], first))
    return found


def _selected(answers: Sequence[EpochAnswer]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for answer in answers:
        for stream, (rows, kept) in answer.selected.items():
            before = found.get(stream, (0, 0))
            found[stream] = (before[0] + rows, before[1] + kept)
    return found


def _failures(answers: Sequence[EpochAnswer]) -> dict[str, Mapping[str, Any]]:
    """The failure of each query: the earliest of its failures on the replicas."""
    found: dict[str, Mapping[str, Any]] = {}
    for answer in answers:
        for failure in answer.failures:
            known = found.get(failure["query"])
            if known is None or failure["at"] < known["at"]:
                found[failure["query"]] = failure
    return found


def _unknown(
    answers: Sequence[EpochAnswer], failures: Mapping[str, Mapping[str, Any]]
) -> tuple[ExpressionFailure, ...]:
    if len(answers) == 1 or not failures:
        return ()
    everywhere = set.intersection(*({failure["query"] for failure in answer.failures} for answer in answers))
    return tuple(
        ExpressionFailure(name, failure["operator"], failure["detail"], failure["error"])
        for name, failure in failures.items()
        if name not in everywhere
    )


def _answered(answers: Sequence[EpochAnswer]) -> tuple[str, ...]:
    between = {sent.fragment.rpartition("/")[0] for answer in answers for sent in answer.exchange}
    names = dict.fromkeys(name for answer in answers for name in answer.once)
    totals = {name: [answer.once[name] for answer in answers if name in answer.once] for name in names}
    return tuple(
        name
        for name, parts in totals.items()
        if name not in between and any(rows for rows, _ in parts) and not any(waiting for _, waiting in parts)
    )


def _inline(answers: Sequence[EpochAnswer]) -> dict[str, tuple[bytes, ...]]:
    found: dict[str, list[bytes]] = {}
    missing: set[str] = set()
    for answer in answers:
        for name, data in answer.inline.items():
            found.setdefault(name, []).append(data)
        missing |= answer.rows.keys() - answer.inline.keys()
    return {name: tuple(parts) for name, parts in found.items() if name not in missing}
