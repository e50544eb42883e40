"""`headgate explain`: the shared graph of a script, its units, costs and order of grants under a policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failures import InputError

if TYPE_CHECKING:
    from headgate.explanation.explained import ExplainedPlacement, Explanation


class ExplainFormat(StrEnum):
    """The output format of the explanation."""

    text = "text"
    json = "json"
    svg = "svg"


def explain(
    script: Annotated[Path, typer.Argument(help="A file of SQL statements.", metavar="SCRIPT")],
    policy: Annotated[str, typer.Option("--policy", help="The policy whose units are shown.")] = "cqc",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Place queries on N replicas.", metavar="N")] = 1,
    format_: Annotated[ExplainFormat, typer.Option("--format", help="The output format.")] = ExplainFormat.text,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.", metavar="FILE")] = None,
) -> None:
    """Show the shared graph, which queries share what, the units of a policy, and where queries run."""
    from headgate.cli.drawing import svg
    from headgate.cli.script import load
    from headgate.explanation.explained import explain as explained

    found = explained(load(script), policy, replicas)
    if not found.queries:
        raise InputError(f"{script}: no query is declared; add CREATE QUERY name AS SELECT …")
    if format_ is ExplainFormat.json:
        written = json.dumps(found.json(), indent=2, ensure_ascii=False)
    elif format_ is ExplainFormat.svg:
        written = svg(found, title=script.name)
    else:
        written = text(found)
    if output is None:
        typer.echo(written)
        return
    try:
        output.write_text(written + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{output}: {(error.strerror or str(error)).lower()}; give a path that can be written"
        ) from error


def text(found: Explanation) -> str:
    """The explanation for a terminal."""
    from headgate.explanation.explained import counted, listed
    from headgate.graph.durations import short_duration
    from headgate.graph.types import sql_name

    shared = found.shared
    alone = sum(len(step.queries) for step in found.operators)
    lines = [
        f"{counted(len(found.queries), 'query', 'queries')}, {counted(len(found.operators), 'operator')}"
        f" ({alone} if nothing were shared); policy {found.policy}: {counted(len(found.units), 'unit')}",
        "",
    ]
    for stream in found.streams:
        columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in stream.schema.fields)
        watermark = ""
        if stream.time is not None:
            watermark = f", watermark {stream.schema[stream.time].name} - {short_duration(stream.delay)}"
        lines.append(f"stream {stream.name} ({columns}){watermark}")
    for query in found.queries:
        columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in query.schema.fields)
        sinks = f" into {', '.join(s.format for s in query.sinks)}" if query.sinks else ""
        mode = ", replacing earlier rows" if query.mode == "update" else ""
        lines.append(
            f"query {query.name} = operator {found.outputs[query.name]}, class {query.cls.name}"
            f" (priority {query.cls.priority}){sinks}{mode}: {columns}"
        )
    lines += ["", "operators (cost and selectivity are expectations until they are measured)", ""]
    rows = [("", "what", "reads", "units", "µs/row", "out/in", "serves")]
    for step in found.operators:
        sharing = f"{len(step.queries)} queries: " if step.shared else ""
        rows.append(
            (
                f"{step.number}{'*' if step.shared else ''}",
                f"{step.kind} {step.detail}",
                " ".join(map(str, step.inputs)),
                " ".join(map(str, step.units)),
                "" if step.seconds is None else f"{step.seconds * 1e6:.3g}",
                "" if step.selectivity is None else f"{step.selectivity:.3g}",
                sharing + listed(step.queries),
            )
        )
    lines += _table(rows, widest=72)
    lines += ["", f"units of policy {found.policy} (turn: the order of grants if one row waits on every queue)", ""]
    lines += _table(
        [
            ("unit", "operators", "reads at", "class", "turn"),
            *(
                (
                    str(unit.number),
                    " ".join(map(str, unit.operators)),
                    " ".join(map(str, unit.reads)),
                    unit.cls,
                    "" if unit.turn is None else str(unit.turn),
                )
                for unit in sorted(found.units, key=lambda u: (u.turn is None, u.turn, u.number))
            ),
        ],
        widest=60,
    )
    lines += ["", f"* shared: {len(shared)} operators serve more than one query" if shared else "nothing is shared"]
    if found.placement is not None:
        lines += ["", *_placement(found.placement)]
    return "\n".join(lines)


def _placement(found: ExplainedPlacement) -> list[str]:
    """Where queries run, and the routes of each stream."""
    from headgate.explanation.explained import listed

    split = [name for name, home in found.homes.items() if home is None]
    lines = [f"{found.replicas} replicas", ""]
    rows = [("replica", "queries")]
    if split:
        rows.append(("all", listed(split, 12)))
    rows += [
        (str(replica), listed([name for name, home in found.homes.items() if home == replica], 12))
        for replica in range(found.replicas)
    ]
    lines += [*_table(rows, widest=90), "", "routes of rows", ""]
    routes = [("stream", "route", "queries")]
    for stream, each in found.routes.items():
        routes += [(stream, route, listed(queries, 8)) for route, queries in each]
    return lines + _table(routes, widest=60)


def _table(rows: Sequence[tuple[str, ...]], widest: int) -> list[str]:
    """Lines with aligned columns; a cell that is too long is wrapped."""
    from textwrap import wrap

    widths = [min(widest, max(len(row[c]) for row in rows)) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [wrap(cell, max(width, 1)) or [""] for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            parts = [(c[i] if i < len(c) else "").ljust(w) for c, w in zip(cells, widths, strict=True)]
            lines.append(("  " + "  ".join(parts)).rstrip())
    return lines
