"""Reads tables of expression cases, and shows values as the tables write them.

A file starts with `zone: …` (optional), `columns: name TYPE, …` and one line `row: value | value …` for each row.
Every other line is `expression => value | value …`, one value for each row, or `expression => ERROR CONDITION`.
A line that starts with # is a comment; one of them is the stamp of the answers (`tests.recorded`).
Values are written as Python would: NULL, True, 12, 'text', 1.5, and times as 2024-02-29 or 2024-02-29T12:00:00.5.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.graph.expressions import Expr
from headgate.operators.batch import Arrival, Batch
from headgate.sql.catalog import Catalog

FOLDER = Path(__file__).parent / "cases"


@dataclass
class Case:
    """One expression and its value on every row; `error` is Spark's error condition if it fails."""

    line: int
    expression: str
    expected: list[str]
    error: str | None = None


@dataclass
class Table:
    """One file of cases."""

    path: Path
    columns: str
    zone: str = "UTC"
    rows: list[list[str]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)

    @property
    def catalog(self) -> Catalog:
        catalog = Catalog(time_zone=self.zone)
        catalog.execute(f"CREATE STREAM t ({self.columns}) USING rate;")
        return catalog

    def batch(self) -> pa.RecordBatch:
        """The rows as Arrow columns."""
        schema = self.catalog.streams["t"].schema.arrow()
        values = [[read(row[i], f.type) for row in self.rows] for i, f in enumerate(schema)]
        arrays = [pa.array(v, f.type) for v, f in zip(values, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def bound(catalog: Catalog, expressions: list[str]) -> list[Expr]:
    """The typed expressions of SQL texts over the stream `t`."""
    listed = ", ".join(f"{e} AS x{i}" for i, e in enumerate(expressions))
    catalog.query("q", f"SELECT {listed} FROM t")
    plan = catalog.queries["q"].plan
    catalog.drop_query("q")
    return list(plan.exprs)  # type: ignore[attr-defined]


def batch_of(rows: pa.RecordBatch) -> Batch:
    return Batch(rows, Arrival.at(0.0, rows.num_rows))


def load(path: Path) -> Table:
    table: Table | None = None
    zone = "UTC"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("zone:"):
            zone = line.removeprefix("zone:").strip()
        elif line.startswith("columns:"):
            table = Table(path, line.removeprefix("columns:").strip(), zone)
        elif table is None:
            raise ValueError(f"{path}:{number}: columns come first")
        elif line.startswith("row:"):
            table.rows.append(cells(line.removeprefix("row:")))
        else:
            expression, wanted = (part.strip() for part in re.split(r" =>(?: |$)", line, maxsplit=1))
            error = wanted.removeprefix("ERROR ").strip() if wanted.startswith("ERROR") else None
            table.cases.append(Case(number, expression.strip(), cells(wanted) if not error else [], error))
    assert table is not None
    return table


def cells(text: str) -> list[str]:
    """Splits at bars outside of quotes."""
    out, inside, current = [], "", ""
    previous = ""
    for char in text:
        if inside:
            if char == inside and previous != "\\":
                inside = ""
        elif char in "'\"":
            inside = char
        elif char == "|":
            out.append(current.strip())
            current = ""
            continue
        previous = "" if previous == "\\" else char
        current += char
    return [*out, current.strip()]


def read(cell: str, type_: pa.DataType) -> Any:
    """One value of a row."""
    if cell == "NULL":
        return None
    if pa.types.is_floating(type_):
        return float(cell)
    if pa.types.is_decimal(type_):
        return Decimal(cell)
    if pa.types.is_date(type_):
        return date.fromisoformat(cell)
    if pa.types.is_timestamp(type_):
        return datetime.fromisoformat(cell).replace(tzinfo=UTC if type_.tz else None)
    return ast.literal_eval(cell)


def show(value: Any) -> str:
    """A value as tables write it."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} us"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return repr(value)


def shown(array: pa.Array) -> list[str]:
    """All values of a column as tables write them."""
    if pa.types.is_timestamp(array.type):
        # Times beyond Python's years are shown as microseconds.
        ticks = array.cast(pa.int64()).to_pylist()
        return [show(_moment(t)) if t is not None else "NULL" for t in ticks]
    if pa.types.is_date(array.type):
        days = array.cast(pa.int32()).to_pylist()
        return [show(_moment(d * 86_400_000_000, dates=True)) if d is not None else "NULL" for d in days]
    return [show(v) for v in array.to_pylist()]


def _moment(ticks: int, dates: bool = False) -> Any:
    try:
        moment = datetime(1970, 1, 1) + timedelta(microseconds=ticks)
        return moment.date() if dates else moment
    except OverflowError:
        return ticks


def alike(given: str, wanted: str) -> bool:
    """Equal texts, or equal numbers to 1e-9."""
    if given == wanted:
        return True
    try:
        a, b = float(given), float(wanted)
    except ValueError:
        return False
    if "." not in given + wanted and "e" not in given + wanted:
        return False
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300) and (a != 0 or math.copysign(1, a) == math.copysign(1, b))
