"""Rows with their partners in a static table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headgate.graph.expressions import Expr
from headgate.graph.operators.join import JoinKind
from headgate.graph.operators.operator import ALL, TABLE, Unary, Write, over
from headgate.graph.types import Field, Schema


@dataclass(frozen=True, eq=False)
class Lookup(Unary):
    """Joins each row with a static table (stream on the left). `residual` sees the row's columns, then the table's."""

    table: str
    table_schema: Schema = field(compare=False)
    how: JoinKind
    keys: tuple[Expr, ...]
    table_keys: tuple[Expr, ...] = field(metadata=over(TABLE))
    residual: tuple[Expr, ...] = field(default=(), metadata=over(ALL))

    makes_rows: ClassVar[bool] = True

    @property
    def beside(self) -> tuple[Field, ...]:
        return self.table_schema.fields

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a.text} = {b.text}" for a, b in zip(self.keys, self.table_keys, strict=True))
        residual = "".join(f" and {r.text}" for r in self.residual)
        return f"{self.table} {self.how} on {keys}{residual}"

    def describe(self, write: Write) -> str:
        names, table = self.input.schema.names, self.table_schema.names
        keys = zip(self.keys, self.table_keys, strict=True)
        on = [f"{write(a, names)} = {write(b, table)}" for a, b in keys]
        on += [write(r, [*names, *table]) for r in self.residual]
        return f"{self.how} {self.table} ON {' AND '.join(on)}"
