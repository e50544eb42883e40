"""Benchmarks, mostly comparisons with a peer in one run; this file is the registry behind `headgate bench`.

A bench is a module of this package with a function `run()` that measures and returns one Outcome or several. Its
parameters, all with defaults, are the options of `headgate bench NAME --set OPTION=VALUE`.
To add one, write the module and list it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any

from headgate.bench.processor_time import mark
from headgate.outcome import Outcome
from headgate.spark import class_archive

BENCHES: Mapping[str, str] = {
    "operators": "the Arrow operators compared with hand-written pyarrow.compute code",
    "scheduling": "cost of a grant, of a decision, and of scheduling 1,000 operators",
    "statistics": "cost of measuring every operator, compared with the same network without measurements",
    "spill": "a burst of ten times the memory limit, with and without the limit",
    "epoch": "an epoch and its parts, compared with a trigger of a plain streaming query",
    "single": "a single query: latency and throughput compared with plain Structured Streaming",
    "classes-21": "21 queries in three classes over 27 streams, compared with plain Structured Streaming",
    "queries-200": "200 selection queries: processor time per row and query, compared with plain Structured Streaming",
    "pace": "processor time of 21 selections at 2,000 rows/s with a latency spec of 2 s, of 200 ms, and without one",
    "overload": "critical queries while reports need 150% of the processors, compared with critical alone",
    "day": "a day of changing load, simulated or (--set live=true) on Spark: policy auto beside fixed policies",
    "objectives": "objectives change from 70/30 to 30/70 while a network runs, or (--set live=true) an engine on Spark",
    "watching": "processor time of the run-time optimizer's thread, with all specs met and with one that is missed",
    "idle": "processor time of an idle engine, and how soon it answers the first row",
    "feeder": "rows that the feeder sends per second of one core, and its lag at 200,000 rows/s",
    "scale": "throughput with two replicas compared with one, cost of the shuffle, balance of the replicas",
    "first-result": "seconds from the start on a cluster to the first result",
    "clients": "100 clients that follow results while 21 queries run, compared with none",
    "kafka": "Kafka to Kafka: 1, 21 and 200 queries, compared with plain and with one foreachBatch query",
    "isolation": "queries beside one whose function hangs, exits, crashes or takes 6 GB; stop and Ctrl-C meanwhile",
    "recovery": "restart after kill −9 with 100 MB of state",
}


class UnknownBench(ValueError):
    """No bench has this name or option; the message suggests the closest one or lists all."""


def run(name: str, options: Mapping[str, str] | None = None) -> Sequence[Outcome]:
    """Runs one bench by name. `options` replace the defaults of its parameters."""
    if name not in BENCHES:
        near = get_close_matches(name, BENCHES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"the benches are {', '.join(BENCHES)}"
        raise UnknownBench(f"no bench is called '{name}'; {hint}")
    bench = import_module(f"{__name__}.{name.replace('-', '_')}").run
    given = _arguments(name, bench, options or {})
    # Created before the bench: otherwise a process without an archive creates one at its end, during the next run.
    class_archive.make(wait=True)
    mark()
    outcomes = bench(**given)
    return [outcomes] if isinstance(outcomes, Outcome) else list(outcomes)


_SWITCH = {"true": True, "false": False}


def _arguments(name: str, bench: Callable[..., Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Options as arguments, with the types of the defaults that they replace."""
    defaults = {key: parameter.default for key, parameter in signature(bench).parameters.items()}
    given: dict[str, Any] = {}
    for key, text in options.items():
        if key not in defaults:
            has = f"its options are {', '.join(f'{k}={v}' for k, v in defaults.items())}" if defaults else "it has none"
            raise UnknownBench(f"bench {name} has no option {key}; {has}")
        try:
            given[key] = _SWITCH[text] if isinstance(defaults[key], bool) else type(defaults[key])(text)
        except (KeyError, ValueError):
            raise UnknownBench(f"option {key} of bench {name} is {text}; give a value as {defaults[key]}") from None
    return given
