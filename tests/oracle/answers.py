"""Answers of the two sides, and whether they are the same: multisets of rows, floats to a relative tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.oracle.cases import Case, split_outside_strings
from tests.oracle.cells import parse_cell, show_cell, type_name

FLOATS = 1e-9


@dataclass(frozen=True)
class Answer:
    """A result: column names, types and rows in no order."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    rows: list[tuple[Any, ...]]

    @staticmethod
    def of(table: pa.Table, types: Sequence[pa.DataType] | None = None) -> Answer:
        """The rows of an Arrow table, its columns taken as these types (nullability and time zones differ)."""
        types = tuple(types) if types is not None else tuple(table.schema.types)
        columns = [
            (column if column.type == type_ else column.cast(type_)).to_pylist()
            for column, type_ in zip(table.columns, types, strict=True)
        ]
        return Answer(tuple(table.column_names), types, list(zip(*columns, strict=True)) if columns else [])

    @property
    def header(self) -> str:
        return " | ".join(f"{name} {type_name(type_)}" for name, type_ in zip(self.names, self.types, strict=True))

    def show(self) -> str:
        """The text of an expect part: columns aligned, rows in order."""
        lines = [[f"{name} {type_name(t)}" for name, t in zip(self.names, self.types, strict=True)]]
        lines += sorted([show_cell(v, t) for v, t in zip(row, self.types, strict=True)] for row in self.rows)
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.names))]
        return "\n".join(
            " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def read_expected(text: str, types: Sequence[pa.DataType]) -> tuple[str, list[tuple[Any, ...]]]:
    """The header (as `Answer.header` has it) and the rows of an expect part."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return "", []
    header = " | ".join(" ".join(cell.split()) for cell in lines[0].split("|"))
    rows = []
    for line in lines[1:]:
        cells = split_outside_strings(line)
        if len(cells) != len(types):
            raise ValueError(f"{len(cells)} cells for {len(types)} columns: {line}")
        rows.append(tuple(parse_cell(cell, type_) for cell, type_ in zip(cells, types, strict=True)))
    return header, rows


def wrong(answer: Answer, case: Case) -> str:
    """None if the case expects this answer, within its tolerance; otherwise the difference."""
    header, rows = read_expected(case.expected or "", answer.types)
    if answer.header != header:
        return f"{answer.header} instead of {header}"
    return differences(answer.rows, rows, float(case.options.get("within", FLOATS)))


def check(answer: Answer, case: Case) -> None:
    """Fails unless the case expects this answer."""
    found = wrong(answer, case)
    assert not found, f"{case.file}:{case.line}\n{found}"


def differences(got: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], within: float = FLOATS) -> str:
    """None if both hold the same rows; otherwise the missing and the surplus rows."""
    left = sorted(got, key=_key)
    right = sorted(wanted, key=_key)
    if len(left) == len(right) and all(same(a, b, within) for a, b in zip(left, right, strict=True)):
        return ""
    # Rounding may order nearly equal rows differently on both sides: match each with any that is left.
    missing: list[tuple[Any, ...]] = []
    for row in right:
        at = next((i for i, other in enumerate(left) if same(other, row, within)), None)
        if at is None:
            missing.append(row)
        else:
            del left[at]
    if not missing and not left:
        return ""
    return "\n".join([*(f"  missing {row}" for row in missing[:10]), *(f"  surplus {row}" for row in left[:10])])


def same(a: Any, b: Any, within: float = FLOATS) -> bool:
    """Whether two values are the same; NaN is NaN, and 0.0 is -0.0."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same(x, y, within) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], within) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=within, abs_tol=1e-300)
    if within > FLOATS and isinstance(a, int) and isinstance(b, int):
        return abs(a - b) <= within * max(abs(a), abs(b))
    return type(a) is type(b) and bool(a == b)


def _key(value: Any) -> str:
    """Sorts rows of mixed nulls and types; floats by eight digits, so that rounding seldom matters."""
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_key, value)) + ")"
    if isinstance(value, dict):
        return _key(tuple(value.values()))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value + 0.0:.7e}"
    return str(value)
