"""The names that are visible at one place of a query."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.graph.expressions import Expr
from headgate.sql.relation import NamedColumn, Relation


@dataclass
class Scope:
    """The names visible at one place: the columns of FROM, then the aliases that the SELECT list has defined so far."""

    relation: Relation
    aliases: dict[str, Expr] = field(default_factory=dict)
    windows: dict[str, Expr] = field(default_factory=dict)
    aliases_first: bool = False

    def columns(self, qualifier: str | None, name: str) -> list[NamedColumn]:
        return [
            c
            for c in self.relation.columns
            if c.name.lower() == name.lower() and (qualifier is None or qualifier.lower() in c.qualifiers)
        ]

    def has_item(self, qualifier: str) -> bool:
        return any(qualifier.lower() in c.qualifiers for c in self.relation.columns)

    @property
    def known(self) -> list[str]:
        return list(dict.fromkeys(c.name for c in self.relation.columns))
