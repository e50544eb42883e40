"""000 §6.3, Fig. 6: a source whose own thread runs a join slows down once the join is saturated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.outcome import Figures, Outcome, Series
from headgate.scheduling import Topology
from headgate.simulation import JoinModel, Poisson, simulate

Floats = NDArray[np.float64]

ELEMENTS, RATE, WINDOW = 180_000, 1000.0, 60.0
# Two values match if they are equal, one in 10^5 (§6.3; "approximately 0.1" of a window's elements find a match).
MATCHING = 1e-5
HASH, NESTED = "hash join", "nested-loops join"
DIRECT, QUEUED = "without queues", "with queues"
POLICIES: Mapping[str, str] = {DIRECT: "di", QUEUED: "di:sources=queued"}
# When each join becomes saturated, as measured in the paper; costs that the text leaves open are fitted to it.
FALLS: Mapping[str, float] = {HASH: 58.0, NESTED: 17.0}
# Inserting into or removing from a hash table, as a share of the time between two elements.
HASHING = 0.3
EVERY = 2.0
# A rate within 5% counts as sustained: three deviations of 2 s of Poisson arrivals from two sources at 1,000/s.
SUSTAINED = 0.95

TOPOLOGY = Topology.of({"join": ["left", "right"]}, kinds={"join": "join"})


def joins(rate: float = RATE, faster: float = 1.0) -> dict[str, JoinModel]:
    """Both joins, with costs such that two sources of this rate saturate one processor at the time shown in Fig. 6.

    After t seconds a window holds rate·t elements, and 2·rate elements arrive per second. All times are divided by
    `faster`.
    """
    limit = 1 / (2 * rate)
    insert = HASHING * limit
    match = (limit - insert) / (MATCHING * rate * FALLS[HASH] / faster)
    probe = limit / (rate * FALLS[NESTED] / faster)
    window = WINDOW / faster
    return {
        # Inserting an element costs as much as removing it when it leaves the window.
        HASH: JoinModel(insert, MATCHING, window=window, match=match, expire=insert),
        NESTED: JoinModel(1e-9, MATCHING, window=window, probe=probe),
    }


def falls_after(rates: Floats, every: float, rate: float) -> float | None:
    """When the rate was last sustained (s); None if it is sustained to the end."""
    sustained = np.flatnonzero(rates >= SUSTAINED * rate)
    last = int(sustained[-1]) + 1 if len(sustained) else 0
    return None if last == len(rates) else last * every


def decoupling(seed: int, elements: int = ELEMENTS) -> Outcome:
    """Fig. 6: the rate at which each source can deliver, for both joins, with and without queues."""
    length = elements / RATE
    rates: dict[tuple[str, str], Floats] = {}
    for name, model in joins().items():
        for how, policy in POLICIES.items():
            arrivals = {stream: Poisson(RATE, until=length) for stream in TOPOLOGY.streams}
            result = simulate(TOPOLOGY, {"join": model}, arrivals, policy, processors=2, until=length, seed=seed)
            rates[name, how] = np.mean([result.input_rate(s, EVERY) for s in TOPOLOGY.streams], axis=0)
    measured = {
        f"{name} {how}": {
            "falls after (s)": falls_after(curve, EVERY, RATE),
            "input rate at the end (elements/s)": float(curve[-2:].mean()),
        }
        for (name, how), curve in rates.items()
    }
    return Outcome(
        name="hmts-decoupling",
        source="000 §6.3, Fig. 6",
        claim="without queues the input rate drops, first with the nested-loops join; with queues it is sustained",
        paper={
            f"{HASH} {DIRECT}": {"falls after (s)": FALLS[HASH]},
            f"{NESTED} {DIRECT}": {"falls after (s)": FALLS[NESTED]},
            f"{HASH} {QUEUED}": {"falls after (s)": None},
            f"{NESTED} {QUEUED}": {"falls after (s)": None},
        },
        measured=measured,
        rule=_rule,
        setup={
            "seed": seed,
            "elements of each source": elements,
            "rate of each source (elements/s)": RATE,
            "arrivals": "Poisson",
            "window (s)": WINDOW,
            "share of pairs that match": MATCHING,
            "processors": 2,
            "policies": dict(POLICIES),
            "a join runs": "one element at a time, in the thread of either source",
            "costs": "ours: chosen so that the join is saturated at the time shown in Fig. 6",
            "hash join (s)": {"insert or remove": joins()[HASH].cost, "match": joins()[HASH].match},
            "nested-loops join (s)": {"probe of one element": joins()[NESTED].probe},
            "rate is averaged over (s)": EVERY,
            "rate counts as sustained from": SUSTAINED,
        },
        series=_series(rates),
        axes=("time (s)", "input rate (elements/s, mean of both sources)"),
    )


def _rule(paper: Figures, measured: Figures) -> bool:
    hashed, nested = (measured[f"{name} {DIRECT}"]["falls after (s)"] for name in (HASH, NESTED))
    holds = all(measured[f"{name} {QUEUED}"]["falls after (s)"] is None for name in (HASH, NESTED))
    return hashed is not None and nested is not None and nested < hashed and holds


def _series(rates: Mapping[tuple[str, str], Floats]) -> list[Series]:
    """One curve per join without queues, and one for both with queues, where the sources deliver the same rows."""
    curves = {f"{name}, {DIRECT}": rates[name, DIRECT] for name in (HASH, NESTED)}
    curves[f"both joins, {QUEUED}"] = np.mean([rates[name, QUEUED] for name in (HASH, NESTED)], axis=0)
    return [
        Series(label, [(n + 0.5) * EVERY for n in range(len(curve))], curve.tolist()) for label, curve in curves.items()
    ]
