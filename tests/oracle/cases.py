"""Reads the case files.

    === setup                       statements that all cases of the file start from
    === rows s                      rows of a stream or table, one a line, columns separated by bars;
                                    a line `--` ends a batch (the watermark follows each batch)
    === case counts per key         a case: options, then a query (helper statements may stand before it)
    @late window 10 seconds         which rows Spark drops as late; see `spark_side.in_time`
    SELECT …
    --- oracle                      the Spark SQL that gives the same, where the query is not Spark SQL
    --- expect                      the rows, below a header of names and types
    --- fails DIVIDE_BY_ZERO        instead of rows: the error that Spark and Headgate both raise

Options: `@late …`, `@zone NAME` (the session's time zone), `@streaming` (real Structured Streaming must agree too),
`@within 0.05` (relative tolerance of numbers, for approximate functions). A part `--- rows s` inside a case
replaces the file's rows. `s_arrival` is what Spark sees as `s` with two columns more: `_row`, the number of the row
in its stream, and `_watermark`, the stream's watermark when it came.

`python -m tests.oracle.record FILE…` writes what Spark answers, and a stamp (`tests.recorded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.oracle.cells import parse_cell, parse_type, split_outside

FILES = sorted((Path(__file__).parent / "cases").glob("*.case"))
OPTIONS = {"late", "zone", "streaming", "within"}

_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "millisecond": 0.001}


@dataclass(frozen=True)
class Input:
    """A stream (or a static table) as a case file declares it."""

    name: str
    schema: pa.Schema
    static: bool
    time: str | None = None
    delay: timedelta = timedelta()


@dataclass(frozen=True)
class Case:
    """One case, with its declarations and rows."""

    file: Path
    line: int
    name: str
    setup: str
    inputs: dict[str, Input]
    batches: dict[str, list[pa.RecordBatch]]
    statements: str
    query: str
    oracle: str | None
    expected: str | None
    fails: str | None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.file.stem}: {self.name}"

    @property
    def zone(self) -> str:
        return self.options.get("zone", "UTC")

    def watermarks(self, name: str) -> list[datetime | None]:
        """The watermark of a stream when each batch arrives: the highest event time before it, minus the delay."""
        of = self.inputs[name]
        before: list[datetime | None] = []
        newest: datetime | None = None
        for batch in self.batches[name]:
            before.append(None if newest is None else newest - of.delay)
            times = [t for t in batch.column(of.time).to_pylist() if t is not None] if of.time else []
            newest = max([*times, *([newest] if newest else [])], default=None)
        return before


def parse_duration(text: str) -> timedelta:
    """`10 seconds`, `1 minute` … as INTERVAL has them."""
    found = re.fullmatch(r"\s*'?(\d+(?:\.\d+)?)'?\s+([A-Za-z]+?)[sS]?\s*", text)
    if not found:
        raise ValueError(f"not a duration: {text}")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2].lower()])


def statements_of(text: str) -> list[str]:
    """The statements of a script."""
    return [part.strip() for part in split_outside(text, ";", "()") if part.strip()]


def declared(script: str) -> dict[str, Input]:
    """The streams and tables that a script declares, parsed here, independently of the code under test."""
    found: dict[str, Input] = {}
    for statement in statements_of(script):
        head = re.match(r"(?:\s|--[^\n]*\n)*CREATE\s+(STREAM|TABLE)\s+(\w+)\s*\(", statement, re.IGNORECASE)
        if not head:
            continue
        depth, end = 1, head.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(statement[end], 0)
            end += 1
        columns, time, delay = [], None, timedelta()
        for part in split_outside(statement[head.end() : end - 1], ","):
            mark = re.match(r"\s*WATERMARK\s+FOR\s+(\w+)\s+AS\s+\w+(?:\s*-\s*INTERVAL\s+(.*))?", part, re.IGNORECASE)
            if mark:
                time, delay = mark[1], parse_duration(mark[2]) if mark[2] else timedelta()
            else:
                name, type_ = part.strip().split(None, 1)
                columns.append((name.strip("`"), parse_type(re.sub(r"(?i)\s+NOT\s+NULL$", "", type_.strip()))))
        found[head[2]] = Input(head[2], pa.schema(columns), head[1].upper() == "TABLE", time, delay)
    return found


def parse_rows(lines: list[tuple[int, str]], of: Input, file: Path) -> list[pa.RecordBatch]:
    """Batches of rows from the lines of a rows section."""
    batches: list[list[list[Any]]] = [[]]
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if line.strip() == "--":
            batches.append([])
            continue
        cells = split_outside_strings(line)
        if len(cells) != len(of.schema):
            raise ValueError(f"{file}:{number}: {len(cells)} cells for {len(of.schema)} columns of {of.name}")
        batches[-1].append([parse_cell(cell, f.type) for cell, f in zip(cells, of.schema, strict=True)])
    return [_batch(rows, of.schema) for rows in batches]


def split_outside_strings(line: str) -> list[str]:
    """The cells of a line: bars inside JSON strings do not count."""
    return re.findall(r'((?:"(?:[^"\\]|\\.)*"|[^|"])*)(?:\||$)', line)[: _bars(line) + 1]


def _bars(line: str) -> int:
    return re.sub(r'"(?:[^"\\]|\\.)*"', "", line).count("|")


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(column), type=f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def load(file: Path) -> list[Case]:
    """All cases of a file."""
    setup, cases = "", []
    rows: dict[str, list[pa.RecordBatch]] = {}
    for number, title, lines in _sections(file, "=== "):
        word, _, rest = title.partition(" ")
        if word == "setup":
            setup = "\n".join(text for _, text in lines)
        elif word == "rows":
            of = declared(setup).get(rest.strip())
            if of is None:
                raise ValueError(f"{file}:{number}: the setup declares no stream or table {rest}")
            rows[of.name] = parse_rows(lines, of, file)
        elif word == "case":
            cases.append(_case(file, number, rest.strip(), setup, rows, lines))
        else:
            raise ValueError(f"{file}:{number}: no section is called {word}; there are setup, rows and case")
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise ValueError(f"{file}: two cases have one name")
    return cases


@cache
def load_all() -> tuple[Case, ...]:
    """All cases of all files, read once in a process."""
    return tuple(case for file in FILES for case in load(file))


def over_the_same_rows(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases by file, time zone and rows: the queries of a group can run in one graph."""
    found: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        rows = tuple(id(batches) for batches in case.batches.values())
        found.setdefault((case.file, case.zone, rows), []).append(case)
    return list(found.values())


def _case(
    file: Path,
    number: int,
    name: str,
    setup: str,
    rows: dict[str, list[pa.RecordBatch]],
    lines: list[tuple[int, str]],
) -> Case:
    parts: dict[str, list[tuple[int, str]]] = {"": []}
    for line_number, line in lines:
        if line.startswith("--- "):
            parts[line[4:].strip()] = []
        else:
            parts[list(parts)[-1]].append((line_number, line))
    options: dict[str, str] = {}
    script: list[str] = []
    for line_number, line in parts.pop(""):
        if line.startswith("@"):
            key, _, value = line[1:].partition(" ")
            if key not in OPTIONS:
                raise ValueError(f"{file}:{line_number}: no option is called @{key}")
            options[key] = value.strip()
        else:
            script.append(line)
    *statements, query = statements_of("\n".join(script))
    known = declared(setup + ";" + ";\n".join(statements))
    own = dict(rows)
    for title in [t for t in parts if t.startswith("rows ")]:
        of = known[title[5:].strip()]
        own[of.name] = parse_rows(parts.pop(title), of, file)
    for missing in known.keys() - own.keys():
        own[missing] = [_batch([], known[missing].schema)]
    fails = next((title[6:].strip() for title in parts if title.startswith("fails ")), None)
    texts = {title: "\n".join(text for _, text in inside) for title, inside in parts.items()}
    unknown = [t for t in texts if t not in ("oracle", "expect") and not t.startswith("fails ")]
    if unknown:
        raise ValueError(f"{file}:{number}: no part of a case is called {unknown[0]}")
    return Case(
        file,
        number,
        name,
        setup,
        known,
        {k: v for k, v in own.items() if k in known},
        ";\n".join(statements),
        query,
        texts.get("oracle"),
        texts.get("expect"),
        fails,
        options,
    )


def _sections(file: Path, prefix: str) -> list[tuple[int, str, list[tuple[int, str]]]]:
    found: list[tuple[int, str, list[tuple[int, str]]]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(prefix):
            found.append((number, line[len(prefix) :].strip(), []))
        elif found:
            found[-1][2].append((number, line))
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"{file}:{number}: text before the first section")
    return found
