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
}


class UnknownBench(ValueError):
    """No bench has that name; the message says which there are."""


def run(name: str) -> Sequence[Outcome]:
    """Runs one bench by name and gives what it found."""
    if name not in BENCHES:
        near = get_close_matches(name, BENCHES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(BENCHES)}"
        raise UnknownBench(f"no bench is called '{name}'; {hint}")
    found = import_module(f"{__name__}.{name}").run()
    return [found] if isinstance(found, Outcome) else list(found)
