"""002 §2.2, Tables 1 and 2: three filters under FIFO and MTIQ, tuple by tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.outcome import Figures, Outcome, Series
from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, RecordedArrivals, simulate

SELECTIVITY = (0.25, 0.5, 0.8)
TIME = (0.5, 1.0, 2.0)
ARRIVALS = (1.0, 1.0, 2.0, 2.0, 3.0, 3.0)
FINEST = 0.25

Cells = Sequence[float | None]

# The legible cells: Q1, Q2, Q3, total, throughput by time. None: illegible in the scan (rows 1 and 1.5, 3 and 3.5
# of Table 1 and rows 2.5 and 3 of Table 2 overlap; row 0 of Table 2 overlaps its heading).
TABLES: Mapping[str, Mapping[float, Cells]] = {
    "FIFO": {
        0: (0, 0, 0, 0, 0),
        1.5: (1, 0.25, 0, None, 0),
        1.75: (1, 0, 0.125, 1.125, 0),
        2: (3, 0, 0, 3, 0.1),
        2.5: (2, 0.25, 0, 2.25, 0.1),
        3.5: (None, None, 0, 3.25, 0.2),
        4: (3, 0, 0, 3, 0.3),
    },
    "MTIQ": {
        1: (2, 0, 0, None, 0),
        1.5: (1, 0.25, 0, 1.25, 0),
        2: (2, 0.5, 0, 2.5, 0),
        2.5: (None, 0.75, 0, None, 0),
        3.5: (None, None, 0, None, 0),
        4: (1, 1, 0.125, 2.125, 0),
    },
}


def example(seed: int) -> Outcome:
    """Both tables. Deterministic: the seed has no effect."""
    events = {name: _run(f"{name.lower()}:rows=1") for name in TABLES}
    moments = [step * FINEST for step in range(int(4 / FINEST) + 1)]
    series = [
        Series(name, moments, [float(at(table, t)[place] or 0) for t in moments], panel)
        for place, panel in ((3, "tuples in all queues"), (4, "tuples delivered"))
        for name, table in events.items()
    ]
    return Outcome(
        name="amos-example",
        source="002 Tables 1, 2",
        claim="Queues and output of three filters under FIFO and MTIQ equal those of the tables",
        paper={f"{name}, t = {t:g}": list(row) for name, table in TABLES.items() for t, row in table.items()},
        measured={
            f"{name}, t = {t:g}": at(events[name], t) for name, table in TABLES.items() for t, row in table.items()
        },
        rule=equal_where_readable,
        setup={
            "seed": seed,
            "selectivity": SELECTIVITY,
            "time per tuple": TIME,
            "arrivals": ARRIVALS,
            "tuples": "fractional",
            "columns": "tuples in Q1, Q2, Q3, all queues; tuples delivered so far; null: illegible in the paper",
        },
        series=series,
        axes=("time (units)", ""),
    )


def equal_where_readable(paper: Figures, measured: Figures) -> bool:
    """Whether every legible cell is equal within 1e-9."""
    return all(
        expected is None or abs(expected - actual) < 1e-9
        for row, cells in paper.items()
        for expected, actual in zip(cells, measured[row], strict=True)
    )


Events = list[tuple[float, int, float]]


def _run(policy: str) -> Events:
    """Tuples that enter (+) and leave (−) each queue, and tuples delivered (as queue 3), by time."""
    names = [f"op{place}" for place in (1, 2, 3)]
    topology = Topology.of({name: [before] for name, before in zip(names, ("input", *names), strict=False)})
    models = {name: OperatorModel(t, s) for name, t, s in zip(names, TIME, SELECTIVITY, strict=True)}
    events: Events = []
    result = simulate(
        topology,
        models,
        {"input": RecordedArrivals(ARRIVALS)},
        policy,
        tuples="fractional",
        observer=lambda event, edge, row, t: events.append((t, edge, row[1] if event == "in" else -row[1])),
    )
    times, delivered = result.results()
    before = 0.0
    for moment, total in zip(times, delivered, strict=True):
        events.append((float(moment), 3, float(total) - before))
        before = float(total)
    return events


def at(events: Events, moment: float) -> list[float]:
    """A row of the table: Q1, Q2, Q3, total and throughput at a moment, its own events included."""
    level = [0.0] * 4
    for t, place, change in events:
        if t <= moment + 1e-9:
            level[place] += change
    queues = [round(rows, 12) for rows in level]
    return [*queues[:3], round(sum(queues[:3]), 12), queues[3]]
