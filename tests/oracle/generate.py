"""Hypothesis strategies for streams, rows and queries: text of SQL that is valid by construction.

Values are chosen so that nothing overflows and sums of doubles are exact: what is compared is what queries mean.
Each stream has a unique `id`, which breaks ties wherever an order must be total.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headgate.graph import types as t
from headgate.graph.types import sql_name
from tests.oracle.cases import Case, Input

START = datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC)
MONEY = pa.decimal128(10, 2)
_WORDS = ["", "a", "b", "ab", "Abc", "é", "日本", " a ", "a%", "zz"]

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    t.INT: st.integers(-20, 20) | st.sampled_from([-1000, 1000]),
    t.BIGINT: st.integers(-20, 20) | st.sampled_from([-(2**40), 2**40]),
    t.DOUBLE: st.integers(-40, 40).map(lambda n: n / 4) | st.sampled_from([float("nan"), -0.0, 1e10, float("inf")]),
    t.STRING: st.sampled_from(_WORDS),
    t.BOOLEAN: st.booleans(),
    t.DATE: st.integers(-800, 800).map(lambda n: date(2024, 2, 29) + timedelta(days=n)),
    MONEY: st.integers(-5000, 5000).map(lambda n: Decimal(n) / 100),
}
NUMBERS = (t.INT, t.BIGINT, t.DOUBLE, MONEY)


@dataclass(frozen=True)
class Typed:
    """A piece of SQL with its type."""

    sql: str
    type: pa.DataType


@dataclass(frozen=True)
class Generated:
    """A query and the rule by which Spark drops late rows for it."""

    sql: str
    late: str


def literal(value: Any, type_: pa.DataType) -> str:
    """A constant as SQL."""
    if value is None:
        return f"CAST(NULL AS {sql_name(type_)})"
    if type_ == t.STRING:
        return "'" + value + "'"
    if type_ == t.DATE:
        return f"DATE'{value}'"
    if type_ == t.DOUBLE:
        return f"double('{value}')"
    if type_ == MONEY:
        return f"CAST({value} AS DECIMAL(10,2))"
    if type_ == t.BIGINT:
        return f"{value}L"
    return str(value).lower()


@st.composite
def streams(draw: st.DrawFn, name: str) -> tuple[Input, list[pa.RecordBatch]]:
    """A stream with a random schema, and its rows in batches."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    time = f"{name}t"
    delay = timedelta(seconds=draw(st.sampled_from([0, 2, 5, 3600])))
    columns = [("id", t.INT), (time, t.TIMESTAMP), ("k", t.STRING), ("i", t.INT)]
    columns += [(f"{name}{n}", type_) for n, type_ in enumerate(types)]
    schema = pa.schema(columns)
    batches, number = [], 0
    for size in draw(st.lists(st.integers(0, 8), min_size=1, max_size=4)):
        rows: list[list[Any]] = []
        for _ in range(size):
            moment = START + timedelta(milliseconds=250 * draw(st.integers(0, 240)))
            timed = draw(st.integers(0, 19)) > 0
            row: list[Any] = [number, moment if timed else None, draw(st.none() | st.sampled_from(["a", "b", "c"]))]
            row += [draw(st.none() | VALUES[type_]) for type_ in [t.INT, *types]]
            rows.append(row)
            number += 1
        arrays = [pa.array([row[c] for row in rows], f.type) for c, f in enumerate(schema)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return Input(name, schema, False, time, delay), batches


class Maker:
    """Draws parts of queries over the available columns."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def pick(self, options: list[Any] | tuple[Any, ...]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) < percent)

    def value(self, columns: list[Typed], type_: pa.DataType | None = None, depth: int = 2) -> Typed:
        """An expression of a type (any type if none is given)."""
        type_ = type_ if type_ is not None else self.pick([c.type for c in columns if c.type != t.TIMESTAMP])
        fitting = [c for c in columns if c.type == type_]
        if depth == 0 or self.chance(45):
            if fitting and self.chance(85):
                return self.pick(fitting)
            return Typed(literal(self.draw(VALUES[type_]), type_), type_)

        def inner(of: pa.DataType = type_) -> str:
            return self.value(columns, of, depth - 1).sql

        forms = [
            lambda: f"coalesce({inner()}, {inner()})",
            lambda: f"CASE WHEN {self.condition(columns, depth - 1)} THEN {inner()} ELSE {inner()} END",
            lambda: f"nullif({inner()}, {inner()})",
            lambda: f"if({self.condition(columns, depth - 1)}, {inner()}, {inner()})",
        ]
        if type_ in NUMBERS:
            forms += [lambda: f"greatest({inner()}, {inner()})", lambda: f"least({inner()}, {inner()})"]
        if type_ == t.INT:
            forms += [
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"({inner()} % 7)",
                lambda: f"abs({inner()})",
                lambda: f"length({inner(t.STRING)})",
                lambda: f"year({inner(t.DATE)})",
                lambda: f"CAST({inner(t.BOOLEAN)} AS INT)",
            ]
        if type_ == t.BIGINT:
            forms += [lambda: f"({inner()} + {inner(t.INT)})", lambda: f"CAST({inner(t.INT)} AS BIGINT)"]
        if type_ == t.DOUBLE:
            forms += [lambda: f"({inner()} * 2D)", lambda: f"({inner(t.INT)} / 4)", lambda: f"(-{inner()})"]
        if type_ == t.STRING:
            forms += [
                lambda: f"upper({inner()})",
                lambda: f"concat({inner()}, {inner()})",
                lambda: f"substring({inner()}, {self.pick([0, 1, 2, -2])}, 2)",
                lambda: f"trim({inner()})",
                lambda: f"CAST({inner(t.INT)} AS STRING)",
            ]
        if type_ == t.DATE:
            forms += [lambda: f"date_add({inner()}, {self.pick([-1, 0, 31, 366])})", lambda: f"last_day({inner()})"]
        if type_ == t.BOOLEAN:
            forms += [lambda: f"({self.condition(columns, depth - 1)})"]
        return Typed(self.pick(forms)(), type_)

    def condition(self, columns: list[Typed], depth: int = 2) -> str:
        """A condition over the columns."""
        if depth > 0 and self.chance(35):
            kind = self.pick(["AND", "OR", "NOT"])
            first = self.condition(columns, depth - 1)
            return f"NOT ({first})" if kind == "NOT" else f"({first}) {kind} ({self.condition(columns, depth - 1)})"
        one = self.value(columns, depth=max(depth - 1, 0))

        def other() -> str:
            return self.value(columns, one.type, 0).sql

        forms = [
            lambda: f"{one.sql} {self.pick(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {other()}",
            lambda: f"{one.sql} IS {self.pick(['', 'NOT '])}NULL",
            lambda: f"{one.sql} {self.pick(['', 'NOT '])}IN ({other()}, {other()})",
        ]
        if one.type != t.BOOLEAN:
            forms.append(lambda: f"{one.sql} {self.pick(['', 'NOT '])}BETWEEN {other()} AND {other()}")
        if one.type == t.STRING:
            forms.append(lambda: f"{one.sql} LIKE '{self.pick(['a%', '%b%', '_', '%', 'A__'])}'")
        return str(self.pick(forms)())

    def aggregate(self, columns: list[Typed]) -> str:
        """An aggregate whose value does not depend on the order of rows."""
        number = [c for c in columns if c.type in NUMBERS]
        one = self.value(columns, depth=1)
        some = self.value(columns, self.pick(number).type, 1)
        forms = [
            "count(*)",
            f"count({one.sql})",
            f"count(DISTINCT {one.sql})",
            f"sum({some.sql})",
            f"avg({some.sql})",
            f"min({one.sql})",
            f"max({one.sql})",
            f"sum(DISTINCT {some.sql})" if some.type != t.DOUBLE else f"count(DISTINCT {some.sql})",
            f"bool_or({self.condition(columns, 1)})",
            f"count_if({self.condition(columns, 1)})",
            f"stddev_pop({self.value(columns, t.INT, 1).sql})",
            f"var_samp({self.value(columns, t.INT, 1).sql})",
        ]
        found = self.pick(forms)
        if self.chance(20):
            found += f" FILTER (WHERE {self.condition(columns, 1)})"
        return str(found)

    def key(self, columns: list[Typed], type_: pa.DataType | None = None) -> str:
        """A grouping key; a bare number would be the position of a column."""
        found = self.value(columns, type_, 1).sql
        return f"({found} + 0)" if re.fullmatch(r"-?\d+", found) else found

    def items(self, columns: list[Typed], least: int = 1) -> str:
        """A SELECT list."""
        count = self.draw(st.integers(least, 3))
        return ", ".join(f"{self.value(columns).sql} AS x{n}" for n in range(count))

    def where(self, columns: list[Typed]) -> str:
        return f" WHERE {self.condition(columns)}" if self.chance(60) else ""

    # -- whole queries

    def relation(self, of: Input) -> tuple[str, list[Typed]]:
        """The stream itself, or a subquery over it that keeps its time, id and key."""
        columns = [Typed(f.name, f.type) for f in of.schema]
        if self.chance(70):
            return of.name, columns
        extra = self.value(columns)
        names = ", ".join(c.sql for c in columns)
        sql = f"(SELECT {names}, {extra.sql} AS extra FROM {of.name}{self.where(columns)}) {of.name}"
        return sql, [*columns, Typed("extra", extra.type)]

    def selection(self, of: Input) -> Generated:
        source, columns = self.relation(of)
        return Generated(f"SELECT {self.items(columns)} FROM {source}{self.where(columns)}", "keep")

    def windowed(self, of: Input) -> Generated:
        source, columns = self.relation(of)
        length = self.pick([1, 5, 7, 10, 30])
        slide = self.pick([length, length, 5 if length >= 5 else 1, 3 if length >= 3 else 1])
        window = f"window({of.time}, '{length} seconds', '{slide} seconds')"
        late = f"window {length} seconds" if slide == length else "keep"
        if slide != length and of.delay < timedelta(hours=1):
            # Windows that a late row still reaches cannot be expressed by dropping rows: see `late.case`.
            window, late = f"window({of.time}, '{length} seconds')", f"window {length} seconds"
        keys = self.pick([[], ["k"], ["k", self.key(columns, t.INT)], [self.key(columns)]])
        shown = [f"{window} AS w", *(f"{key} AS g{n}" for n, key in enumerate(keys))]
        shown += [f"{self.aggregate(columns)} AS a{n}" for n in range(self.draw(st.integers(1, 3)))]
        third = "sum(i) > 0 OR k IS NULL" if "k" in keys else "true"
        having = f" HAVING {self.pick(['count(*) > 1', 'max(id) > 3', third])}"
        sql = f"SELECT {', '.join(shown)} FROM {source}{self.where(columns)} GROUP BY {', '.join([window, *keys])}"
        return Generated(sql + (having if self.chance(25) else ""), late)

    def session(self, of: Input) -> Generated:
        if of.delay < timedelta(hours=1):
            # A row in time begins a new session beside one that is out already: no dropping of rows expresses that.
            return self.windowed(of)
        source, columns = self.relation(of)
        gap = self.pick([1, 3, 10])
        window = f"session_window({of.time}, '{gap} seconds')"
        keys = self.pick([[], ["k"]])
        shown = [f"{window} AS w", *keys, *(f"{self.aggregate(columns)} AS a{n}" for n in range(2))]
        sql = f"SELECT {', '.join(shown)} FROM {source}{self.where(columns)} GROUP BY {', '.join([window, *keys])}"
        return Generated(sql, f"session {gap} seconds")

    def updated(self, of: Input) -> Generated:
        source, columns = self.relation(of)
        keys = self.pick([[], ["k"], ["k", self.key(columns, t.INT)], [self.key(columns)]])
        shown = [*(f"{key} AS g{n}" for n, key in enumerate(keys)), f"{self.aggregate(columns)} AS a0"]
        sql = f"SELECT {', '.join(shown)} FROM {source}{self.where(columns)}"
        if keys:
            sql += f" GROUP BY {', '.join(keys)}"
            sql += f" HAVING {self.pick(['count(*) > 1', 'sum(i) > 0'])}" if self.chance(30) else ""
        return Generated(sql, "keep")

    def distinct(self, of: Input) -> Generated:
        source, columns = self.relation(of)
        sql = f"SELECT DISTINCT {of.time}, {self.items(columns)} FROM {source}{self.where(columns)}"
        return Generated(sql, "event")

    def top(self, of: Input) -> Generated:
        source, columns = self.relation(of)
        length, count = self.pick([5, 10, 30]), self.pick([1, 2, 3])
        ranking = self.pick(["row_number", "rank", "dense_rank"])
        first = self.value(columns, depth=1)
        order = f"{first.sql} {self.pick(['', 'DESC', 'ASC NULLS LAST', 'DESC NULLS FIRST'])}"
        ties = ", id" if ranking == "row_number" or self.chance(50) else ""
        window = f"window({of.time}, '{length} seconds')"
        inner = f"SELECT {window} AS w, id, {first.sql} AS x, "
        inner += (
            f"{ranking}() OVER (PARTITION BY {window} ORDER BY {order}{ties}) AS r FROM {source}{self.where(columns)}"
        )
        return Generated(f"SELECT w, id, x, r FROM ({inner}) WHERE r <= {count}", f"window {length} seconds")

    def union(self, of: Input, other: Input) -> Generated:
        parts = []
        types = [self.pick(list(VALUES)) for _ in range(self.draw(st.integers(1, 2)))]
        for each in (of, other):
            source, columns = self.relation(each)
            items = ", ".join(f"{self.value(columns, type_).sql} AS x{n}" for n, type_ in enumerate(types))
            parts.append(f"SELECT {items} FROM {source}{self.where(columns)}")
        return Generated(" UNION ALL ".join(parts), "keep")

    def join(self, of: Input, other: Input) -> Generated:
        how = self.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        left, lefts = self.relation(of)
        right, rights = self.relation(other)
        low, high = self.pick([(0, 5), (-5, 5), (0, 0), (-10, -1), (2, 30)])
        lefts = [Typed(f"{of.name}.{c.sql}", c.type) for c in lefts]
        rights = [Typed(f"{other.name}.{c.sql}", c.type) for c in rights]
        sign = [f"{'+' if s >= 0 else '-'} INTERVAL {abs(s)} SECONDS" for s in (low, high)]
        at, bt = f"{of.name}.{of.time}", f"{other.name}.{other.time}"
        on = [f"{bt} BETWEEN {at} {sign[0]} AND {at} {sign[1]}"]
        pairs = [(a.sql, b.sql) for a in lefts for b in rights if a.type == b.type and a.type != t.TIMESTAMP]
        for a, b in self.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2)):
            on.append(f"{a} {self.pick(['=', '=', '<=>'])} {b}")
        if self.chance(40):
            on.append(f"({self.condition([*lefts, *rights], 1)})")
        shown = lefts if "SEMI" in how or "ANTI" in how else [*lefts, *rights]
        where = f" WHERE {self.condition(shown, 1)}" if self.chance(30) else ""
        ids = ", ".join(f"{c.sql} AS {c.sql.replace('.', '_')}" for c in shown if c.sql.endswith(".id"))
        sql = f"SELECT {ids}, {self.items(shown)} FROM {left} {how} {right} ON {' AND '.join(on)}{where}"
        return Generated(sql, "event")

    def stacked(self, of: Input) -> Generated:
        """An aggregate over an aggregate, or a selection over one."""
        columns = [Typed(f.name, f.type) for f in of.schema]
        inner = f"SELECT window({of.time}, '5 seconds') AS w, k, count(*) AS n, {self.aggregate(columns)} AS a "
        inner += f"FROM {of.name}{self.where(columns)} GROUP BY window({of.time}, '5 seconds'), k"
        outer = self.pick(
            [
                f"WITH q AS ({inner}) SELECT w.start AS b, k, n, a FROM q WHERE n > 1 OR k = 'a'",
                f"SELECT window(window_time(w), '20 seconds') AS v, sum(n) AS n, count(a) AS a FROM ({inner}) "
                "GROUP BY window(window_time(w), '20 seconds')",
                f"SELECT w, max(n) AS n, count(DISTINCT k) AS ks FROM ({inner}) GROUP BY w",
            ]
        )
        return Generated(outer, "window 5 seconds")

    def regrouped(self, of: Input, other: Input) -> Generated:
        """What needs other keys than the operators below it, or two keys of one stream."""
        window = "window({0}.{1}, '5 seconds')"
        mine, others = window.format(of.name, of.time), window.format(other.name, other.time)
        columns = [Typed(f.name, f.type) for f in of.schema]
        inner = f"SELECT {mine} AS w, k, count(*) AS n, {self.aggregate(columns)} AS a FROM {of.name}"
        inner += f"{self.where(columns)} GROUP BY {mine}, k"
        same = f"SELECT {mine} AS w, i % 3 AS g, count(*) AS n FROM {of.name} GROUP BY {mine}, i % 3"
        far = f"SELECT {others} AS w, i % 3 AS g, count(*) AS n FROM {other.name} GROUP BY {others}, i % 3"
        how = self.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        one_sided = "SEMI" in how or "ANTI" in how
        on = self.pick(
            ["p.w = q.w AND p.n = q.n", "p.w = q.w AND p.n = q.n + 1", "p.w = q.w AND p.n = q.g AND p.n > 0"]
        )
        shown = "p.w AS w, p.k AS k, p.n AS n" + ("" if one_sided else ", q.w AS v, q.g AS g, q.n AS m")
        joined = f"SELECT {shown} FROM ({inner}) p {how} ({self.pick([same, far])}) q ON {on}"
        forms = [
            f"SELECT DISTINCT w, n FROM ({inner})",
            f"SELECT DISTINCT w, n % 2 AS odd, a FROM ({inner}) WHERE n > 0",
            "SELECT session_window(t, '7 seconds') AS v, n, count(*) AS c, max(k) AS m FROM "
            f"(SELECT window_time(w) AS t, k, n FROM ({inner})) GROUP BY session_window(t, '7 seconds'), n",
            f"SELECT k AS x, n FROM ({inner}) UNION ALL SELECT CAST(g AS STRING), n FROM ({same})",
            joined,
            joined,
        ]
        if how in ("JOIN", "LEFT JOIN"):
            forms.append(f"SELECT w, n, count(*) AS c, max(g) AS g FROM ({joined}) GROUP BY w, n")
            forms.append(f"SELECT DISTINCT w, g FROM ({joined})")
        bound = f"y.{of.time} BETWEEN x.{of.time} AND x.{of.time} + INTERVAL {self.pick([0, 5, 20])} SECONDS"
        pair = "x.id, x.k" if one_sided else "x.id, x.k, y.id AS other, y.i"
        key = self.pick(["x.i = y.id", "x.k = upper(y.k)", "x.id = y.i"])
        twice = f"SELECT {pair} FROM {of.name} x {how} {of.name} y ON {key} AND {bound}"
        return Generated(twice, "event") if self.chance(25) else Generated(self.pick(forms), "window 5 seconds")

    def query(self, of: Input, other: Input) -> Generated:
        kinds = [self.selection, self.windowed, self.windowed, self.session, self.updated, self.distinct, self.top]
        kinds.append(self.stacked)
        pairs = [self.union, self.join, self.join, self.join, self.regrouped]
        at = self.draw(st.integers(0, len(kinds) + len(pairs) - 1))
        return kinds[at](of) if at < len(kinds) else pairs[at - len(kinds)](of, other)


@st.composite
def cases(draw: st.DrawFn, queries: int = 6, regrouped: bool = False) -> list[Case]:
    """Two streams with rows, and several queries over them; all `regrouped`, or any."""
    a, rows_a = draw(streams("a"))
    b, rows_b = draw(streams("b"))
    maker = Maker(draw)
    setup = ";\n".join(map(declaration, (a, b))) + ";"
    found = []
    batches = {"a": rows_a, "b": rows_b}
    for number in range(queries):
        made = maker.regrouped(a, b) if regrouped else maker.query(a, b)
        found.append(
            Case(
                Path("generated"),
                number,
                f"query {number}",
                setup,
                {"a": a, "b": b},
                batches,
                "",
                made.sql,
                None,
                None,
                None,
                {"late": made.late},
            )
        )
    return found


def declaration(of: Input) -> str:
    """A stream's CREATE STREAM."""
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in of.schema)
    seconds = int(of.delay.total_seconds())
    mark = f"WATERMARK FOR {of.time} AS {of.time} - INTERVAL {seconds} SECONDS"
    return f"CREATE STREAM {of.name} ({columns}, {mark}) USING json OPTIONS (path 'in')"
