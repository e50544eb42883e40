"""Comparisons with peers, both sides measured in one run: the registry of what `headgate bench` can run.

A bench is a module of this package with a function `run()` that measures and gives one Outcome or several.
To add one, write the module and name it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module

from headgate.outcome import Outcome

BENCHES: Mapping[str, str] = {
    "operators": "the Arrow operators against hand-written pyarrow.compute for the same work",
    "scheduling": "what a grant, a decision and 1,000 operators cost",
    "statistics": "what it costs to measure every operator, against the same network without",
    "spill": "a burst of ten times the memory limit, with the limit and without",
    "epoch": "an epoch, by part, against one trigger of one plain streaming query",
    "single": "one query alone: latency and throughput against plain Structured Streaming",
    "classes-21": "21 queries in three classes over 27 streams against plain Structured Streaming",
    "queries-200": "200 selection queries: processor time a row and query against plain Structured Streaming",
    "overload": "critical queries beside reports that need 150% of the processors, against critical alone",
    "recovery": "restart after kill −9 with 100 MB of state",
}


class UnknownBench(ValueError):
    """No bench has that name; the message says which there are."""


def run(name: str) -> Sequence[Outcome]:
    """Runs one bench by name and gives what it found."""
    if name not in BENCHES:
        near = get_close_matches(name, BENCHES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(BENCHES)}"
        raise UnknownBench(f"no bench is called '{name}'; {hint}")
    found = import_module(f"{__name__}.{name.replace('-', '_')}").run()
    return [found] if isinstance(found, Outcome) else list(found)
