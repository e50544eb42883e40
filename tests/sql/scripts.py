"""Declarations shared by the SQL tests, and functions that bind a query over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.connectors.registry import connectors
from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from headgate.sql import Catalog
from headgate.sql.lifetimes import Known

WRONG = Path(__file__).parent / "wrong"
PRELUDE = (WRONG / "prelude.sql").read_text(encoding="utf-8")


def declared(known: Known = lambda name, sql: False) -> Catalog:
    """A catalog with the shared streams, tables, functions and queries, at the beginning of 2026."""
    catalog = Catalog(connectors=connectors(), clock=lambda: 1_767_225_600.0, known=known)
    catalog.execute(PRELUDE, "prelude.sql")
    return catalog


def bound(select: str, catalog: Catalog | None = None) -> Query:
    """A SELECT as a query named q."""
    return (catalog or declared()).query("q", select)


def planned(select: str) -> Operator:
    """The plan of a SELECT."""
    return bound(select).plan


def kinds(plan: Operator) -> list[str]:
    """The kinds of operators in a plan, inputs first."""
    return [node.kind for node in plan.walk()]


@dataclass(frozen=True)
class WrongScript:
    """A script that must be refused, and the message from `line:column:` on."""

    place: str
    script: str
    message: str


def wrong_scripts() -> Iterator[WrongScript]:
    """Every case of tests/sql/wrong: scripts divided by ====, the message after ----."""
    for path in sorted(WRONG.glob("*.txt")):
        line = 1
        for case in path.read_text(encoding="utf-8").split("====\n"):
            script, _, message = case.partition("----\n")
            yield WrongScript(f"{path.stem}:{line}", script.rstrip("\n"), message.strip())
            line += case.count("\n") + 1
