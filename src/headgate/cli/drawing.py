"""The shared graph drawn as SVG: streams on the left, queries on the right, shared operators in bold."""

from __future__ import annotations

from collections.abc import Hashable
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING

from headgate.explanation.explained import ExplainedOperator, Explanation, counted
from headgate.explanation.layout import Box, Layout, layout
from headgate.graph.types import sql_name

if TYPE_CHECKING:
    from headgate.graph.queries import Query

CHARACTER = 6.7
LINE = 15.0
PADDING = 10.0
MARGIN = 28.0
WRAP = 34
LINES = 5
# Fill colours by kind; dark text is readable on each of them (contrast above 7).
FILLS = {
    "source": "#dbeafe",
    "select": "#fef3c7",
    "project": "#f3f4f6",
    "aggregate": "#dcfce7",
    "join": "#fae8ff",
    "lookup": "#fae8ff",
    "union": "#e0f2fe",
    "distinct": "#ffedd5",
    "top": "#ffedd5",
    "split": "#fef3c7",
    "expand": "#f3f4f6",
}
QUERY = "#1f2937"
STYLE = """
text { font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #111827; }
.title { font-size: 16px; font-weight: bold; }
.kind { font-weight: bold; }
.small { fill: #4b5563; }
.light { fill: #ffffff; }
.box { stroke: #6b7280; stroke-width: 1; }
.shared { stroke: #b91c1c; stroke-width: 3; }
.badge { fill: #b91c1c; }
.edge { fill: none; stroke: #6b7280; stroke-width: 1.4; }
.queued { stroke: #1d4ed8; stroke-width: 2.4; stroke-dasharray: 6 3; }
"""


def svg(found: Explanation, title: str) -> str:
    """The drawing. Hovering over a box shows its full description and its columns."""
    lines = {step.number: _lines(step) for step in found.operators}
    sizes: dict[Hashable, tuple[float, float]] = {n: _size(text) for n, text in lines.items()}
    ends: dict[Hashable, list[str]] = {("query", q.name): _query_lines(q) for q in found.queries}
    sizes.update({key: _size(text) for key, text in ends.items()})
    edges: list[tuple[Hashable, Hashable]] = [
        (i, step.number) for step in found.operators for i in sorted(set(step.inputs))
    ]
    edges += [(found.outputs[q.name], ("query", q.name)) for q in found.queries]
    placed = layout(sizes, edges, last=frozenset(ends))
    parts = [_edge(placed, edge, edge in found.queued) for edge in edges]
    parts += [_step(placed.boxes[step.number], step, lines[step.number]) for step in found.operators]
    parts += [_query(placed.boxes["query", q.name], q, ends["query", q.name]) for q in found.queries]
    legend, legend_width = _legend(found, placed.height + 30)
    width = max(placed.width, legend_width) + 2 * MARGIN
    height = placed.height + 30 + 46 + 2 * MARGIN + 24
    heading = (
        f"{title}: {counted(len(found.queries), 'query', 'queries')}, {counted(len(found.operators), 'operator')} "
        f"({len(found.shared)} shared), policy {found.policy}: {counted(len(found.units), 'unit', 'units')}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(heading)}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#374151"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text class="title" x="{MARGIN}" y="{MARGIN}">{escape(heading)}</text>',
            f'<g transform="translate({MARGIN} {MARGIN + 24})">',
            *parts,
            *legend,
            "</g>",
            "</svg>",
        ]
    )


def _lines(step: ExplainedOperator) -> list[str]:
    head = f"{step.number} {step.kind}" + (f" · unit {' '.join(map(str, step.units))}" if step.units else "")
    detail = wrap(step.detail, WRAP, break_long_words=True)
    if len(detail) > LINES:
        detail = [*detail[: LINES - 1], detail[LINES - 1][: WRAP - 2] + " …"]
    return [head, *detail]


def _query_lines(query: Query) -> list[str]:
    return [
        query.name,
        f"class {query.cls.name}, priority {query.cls.priority}",
        *(f"into {s.format}" for s in query.sinks),
    ]


def _size(lines: list[str]) -> tuple[float, float]:
    return max(map(len, lines)) * CHARACTER + 2 * PADDING, len(lines) * LINE + 2 * PADDING - 4


def _texts(box: Box, lines: list[str], cls: str = "") -> str:
    return "".join(
        f'<text class="{"kind " if i == 0 else ""}{cls}" x="{box.x + PADDING:.1f}" '
        f'y="{box.y + PADDING + 9 + i * LINE:.1f}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


def _step(box: Box, step: ExplainedOperator, lines: list[str]) -> str:
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in step.schema.fields)
    full = f"{step.kind} {step.detail}\ncolumns: {columns}\nserves: {', '.join(step.queries)}"
    shared = " shared" if step.shared else ""
    corner = 3 if step.kind != "source" else 14
    badge = ""
    if step.shared:
        label = f"{len(step.queries)} queries"
        width = len(label) * CHARACTER + 10
        x, y = box.x + box.width - width + 8, box.y - 13
        badge = (
            f'<rect class="badge" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16" rx="8"/>'
            f'<text class="light" x="{x + 5:.1f}" y="{y + 12:.1f}">{label}</text>'
        )
    return (
        f"<g><title>{escape(full)}</title>"
        f'<rect class="box{shared}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{corner}" fill="{FILLS.get(step.kind, "#f3f4f6")}"/>{_texts(box, lines)}{badge}</g>'
    )


def _query(box: Box, query: Query, lines: list[str]) -> str:
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in query.schema.fields)
    return (
        f"<g><title>{escape(f'query {query.name}: {columns}')}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="14" '
        f'fill="{QUERY}"/>{_texts(box, lines, "light")}</g>'
    )


def _edge(placed: Layout, edge: tuple[Hashable, Hashable], queued: bool) -> str:
    one, other = placed.boxes[edge[0]], placed.boxes[edge[1]]
    points = [(one.x + one.width, one.middle), *placed.bends[edge], (other.x - 1, other.middle)]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        if abs(y0 - y1) < 0.5:
            path += f" L{x1:.1f} {y1:.1f}"
        else:
            bow = (x1 - x0) / 2
            path += f" C{x0 + bow:.1f} {y0:.1f} {x1 - bow:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    return f'<path class="edge{" queued" if queued else ""}" d="{path}" marker-end="url(#tip)"/>'


def _legend(found: Explanation, y: float) -> tuple[list[str], float]:
    kinds = [kind for kind in FILLS if any(step.kind == kind for step in found.operators)]
    parts: list[str] = []
    x = 0.0

    def label(text: str) -> None:
        nonlocal x
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 12:.1f}">{escape(text)}</text>')
        x += len(text) * CHARACTER + 18

    for kind in kinds:
        parts.append(f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="16" height="16" rx="3" fill="{FILLS[kind]}"/>')
        x += 22
        label(kind)
    widest, x, y = x, 0.0, y + 26
    parts.append(f'<rect class="box shared" x="{x:.1f}" y="{y:.1f}" width="16" height="16" rx="3" fill="#ffffff"/>')
    x += 24
    label("shared by several queries")
    parts.append(f'<path class="edge" d="M{x:.1f} {y + 8:.1f} h26" marker-end="url(#tip)"/>')
    x += 34
    label("direct: the producer calls the consumer")
    parts.append(f'<path class="edge queued" d="M{x:.1f} {y + 8:.1f} h26" marker-end="url(#tip)"/>')
    x += 34
    label("queued: the consumer's unit is scheduled")
    parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="22" height="16" rx="8" fill="{QUERY}"/>')
    x += 28
    label("query")
    return parts, max(widest, x)
