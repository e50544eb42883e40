"""The report of a tour as one HTML file with embedded plots."""

from __future__ import annotations

from html import escape

from headgate.tour.outcome import TourOutcome
from headgate.tour.svg import ChartMark, Curve, chart

_STYLE = """
:root { --text: #1f2937; --soft: #6b7280; --back: #ffffff; --grid: #e5e7eb; --band: #fef3c7; --mark: #9ca3af;
  --critical: #dc2626; --dashboard: #2563eb; --report: #059669; --rows: #7c3aed; }
@media (prefers-color-scheme: dark) { :root { --text: #e5e7eb; --soft: #9ca3af; --back: #111827; --grid: #374151;
  --band: #3b3413; --mark: #6b7280; --critical: #f87171; --dashboard: #60a5fa; --report: #34d399; --rows: #a78bfa; } }
body { color: var(--text); background: var(--back); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 800px; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
p.soft, td.soft { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .5rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid var(--grid); font-weight: 600; vertical-align: bottom; white-space: normal; }
td { border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; } td:last-child { font-weight: 700; }
table.about td { text-align: left; font-weight: 400; white-space: normal; }
.chart { width: 100%; height: auto; } .grid { stroke: var(--grid); } .axis { stroke: var(--soft); }
.band { fill: var(--band); } .mark { stroke: var(--mark); stroke-dasharray: 3 3; }
.tick { fill: var(--soft); font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.line { fill: none; stroke-width: 2; stroke: var(--rows); } .dashed { stroke-dasharray: 6 4; }
.label { font-size: 12px; fill: var(--rows); }
.line.critical { stroke: var(--critical); } .label.critical { fill: var(--critical); }
.line.dashboard { stroke: var(--dashboard); } .label.dashboard { fill: var(--dashboard); }
.line.report { stroke: var(--report); } .label.report { fill: var(--report); }
"""


def html(outcome: TourOutcome) -> str:
    """The whole report. Nothing in it is fetched from elsewhere."""
    critical = outcome.times_faster("critical")
    more = "more than " if ">" in outcome.table()[1][-1] else ""
    head = (
        f"Class critical: {more}{critical:.0f} times faster"
        if critical is not None
        else "Class critical: no answers to compare"
    )
    table = outcome.table()
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Headgate tour</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(head)}</h1>",
            f'<p class="soft">{outcome.queries} queries on one machine, first as {outcome.queries} plain Structured'
            " Streaming queries, then in one Spark job with Headgate. The age of an answer is the time from"
            " when the newest row behind it can be read until the answer can be read.</p>",
            '<div class="scroll"><table><tr>' + "".join(f"<th>{escape(cell)}</th>" for cell in table[0]) + "</tr>",
            *("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table[1:]),
            "</table></div>",
            "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in outcome.notes()) + "</ul>",
            *_plots(outcome),
            "<h2>What happened</h2><ol>" + "".join(f"<li>{escape(event)}</li>" for event in outcome.events) + "</ol>",
            '<h2>How it was measured</h2><div class="scroll"><table class="about">',
            *(
                f'<tr><td class="soft">{escape(name)}</td><td>{escape(value)}</td></tr>'
                for name, value in outcome.about.items()
            ),
            "</table></div></body></html>",
        ]
    )


def _plots(outcome: TourOutcome) -> list[str]:
    timeline = outcome.timeline
    bands = [ChartMark(start, "burst", end) for start, end in timeline.bursts]
    failure = ChartMark(timeline.poison, "a query fails", left=True)
    change = ChartMark(timeline.change, f"policy {outcome.policies[1]}")
    ages = [
        Curve(f"{cls}{suffix}", cls, *side.curves[cls], dashed=side is outcome.plain)
        for side, suffix in ((outcome.plain, ", plain"), (outcome.headgate, ""))
        for cls in side.curves
    ]
    ours = outcome.headgate
    mebibytes = [count / (1 << 20) for count in ours.queued]
    rates = [timeline.rate, timeline.peak]
    return [
        "<h2>Age of answers, by the time at which the row was sent</h2>",
        '<p class="soft">Dashed: plain Structured Streaming. Solid: Headgate. A dashed line that ends early had not'
        " answered later rows when it was stopped.</p>",
        chart("Age of answers", "seconds (log)", ages, timeline.seconds, [*bands, failure, change], log=True),
        "<h2>Rows that wait in Headgate's queues</h2>",
        chart(
            "Waiting rows",
            "rows",
            [Curve("rows", "rows", ours.moments, ours.waiting)],
            timeline.seconds,
            [*bands, change],
        ),
        "<h2>Memory of Headgate's queues</h2>",
        chart(
            "Queue memory", "MiB", [Curve("MiB", "rows", ours.moments, mebibytes)], timeline.seconds, [*bands, change]
        ),
        f'<p class="soft">Sensors sent {rates[0]:,.0f} rows/s, in the bursts {rates[1]:,.0f} rows/s; weather stations'
        " 200 rows/s.</p>",
    ]
