"""Hypothesis strategies for queries over queries: operators composed at random, several deep, over streams without
late rows, so that Spark's batch answer is the answer whatever the operators are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from headgate.graph import types as t
from headgate.graph.types import sql_name
from tests.oracle.cases import Case, Input
from tests.oracle.generate import MONEY, NUMBERS, VALUES, Maker, Typed, declaration
from tests.oracle.punctual import NESTED, punctual, table, table_declaration

JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@dataclass(frozen=True)
class Rows:
    """What FROM may name: its text and columns. `times` and `windows`: those of its columns that are event times;
    `rough`: those whose values depend on the order of additions, which only the SELECT list may name; `keys`: for rows
    that are replaced later, the columns that say which row is which, None for rows that are final."""

    sql: str
    columns: list[Typed]
    times: frozenset[str] = frozenset()
    windows: frozenset[str] = frozenset()
    rough: frozenset[str] = frozenset()
    keys: tuple[str, ...] | None = None

    @property
    def compared(self) -> list[Typed]:
        """The columns that keys and orders may name."""
        return [c for c in self.columns if c.sql not in self.rough and t.is_key(c.type)]

    @property
    def plain(self) -> list[Typed]:
        """The columns that expressions may name; a constant if there are none."""
        found = [c for c in self.columns if c.sql not in self.rough and c.type in VALUES]
        return found or [Typed("1", t.INT)]

    def called(self, name: str) -> Rows:
        """The same columns qualified by a name."""

        def of(column: str) -> str:
            return f"{name}.{column}"

        return Rows(
            self.sql,
            [replace(c, sql=of(c.sql)) for c in self.columns],
            frozenset(map(of, self.times)),
            frozenset(map(of, self.windows)),
            frozenset(map(of, self.rough)),
            None if self.keys is None else tuple(map(of, self.keys)),
        )


@dataclass
class Composer(Maker):
    """Draws queries over queries. `statements`: the queries that the last one reads."""

    draw: st.DrawFn
    inputs: tuple[Input, ...] = ()
    prefix: str = ""
    statements: list[str] = field(default_factory=list)
    _names: int = 0

    def name(self, prefix: str = "c") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    # -- sources

    def where(self, columns: list[Typed]) -> str:
        return f" WHERE {self.condition(columns)}" if self.chance(30) else ""

    def source(self) -> Rows:
        of = self.pick([each for each in self.inputs if not each.static])
        assert of.time is not None
        return Rows(of.name, [Typed(f.name, f.type) for f in of.schema], frozenset({of.time}))

    def read(self, made: Rows) -> Rows:
        """A query as something that FROM may name: a subquery, or a query of its own."""
        name = self.name("q")
        if self.chance(40):
            name = self.prefix + name
            self.statements.append(f"CREATE QUERY {name} AS {made.sql}")
            return replace(made, sql=name)
        return replace(made, sql=f"({made.sql}) {name}")

    def rows(self, depth: int) -> Rows:
        """Final rows, several queries deep."""
        if depth == 0:
            return self.source()
        kinds: list[Callable[[int], Rows]] = [self.selected, self.windowed, self.joined, self.joined, self.first]
        kinds += [self.distinct, self.union, self.session, self.windowed, self.met, self.looked_up]
        made = self.pick(kinds)(depth - 1)
        return self.read(made) if made.times | made.windows else self.source()

    # -- parts

    def listed(self, of: Rows, condition: bool = True, keep: tuple[str, ...] = ()) -> Rows:
        """SELECT some columns and expressions FROM rows, keeping what makes them final."""
        taken = [c for c in of.columns if c.sql in keep or self.chance(60)]
        timed = [c for c in of.columns if c.sql in of.times | of.windows]
        if timed and not set(timed) & set(taken):
            taken.append(self.pick(timed))
        return self.renamed(of, taken, extra=True, condition=condition)

    def renamed(self, of: Rows, taken: list[Typed], extra: bool, condition: bool) -> Rows:
        names = {c.sql: self.name() for c in taken}
        columns = [Typed(names[c.sql], c.type) for c in taken]
        items = [f"{c.sql} AS {names[c.sql]}" for c in taken]
        if (extra and self.chance(60)) or not items:
            made = self.value(of.plain)
            columns.append(Typed(self.name(), made.type))
            items.append(f"{made.sql} AS {columns[-1].sql}")

        def kept(among: frozenset[str]) -> frozenset[str]:
            return frozenset(names[c] for c in among if c in names)

        sql = f"SELECT {', '.join(items)} FROM {of.sql}{self.where(of.plain) if condition else ''}"
        keys = None if of.keys is None else tuple(names.get(k, "") for k in of.keys)
        return Rows(sql, columns, kept(of.times), kept(of.windows), kept(of.rough), keys)

    def calls(self, of: Rows, columns: list[Typed], rough: set[str]) -> list[str]:
        """Aggregates, each with its name."""
        found = []
        for _ in range(self.draw(st.integers(1, 3))):
            name = self.name()
            sql, type_, exact = self.call(of)
            found.append(f"{sql} AS {name}")
            columns.append(Typed(name, type_))
            if not exact:
                rough.add(name)
        return found

    def call(self, of: Rows) -> tuple[str, pa.DataType, bool]:
        """An aggregate, its type, and whether its value is exact."""
        among = of.compared
        one = self.pick(among)
        forms: list[tuple[str, pa.DataType, bool]] = [
            ("count(*)", t.BIGINT, True),
            (f"count({one.sql})", t.BIGINT, True),
            (f"count(DISTINCT {one.sql})", t.BIGINT, True),
            (f"min({one.sql})", one.type, True),
            (f"max({one.sql})", one.type, True),
        ]
        condition = self.condition(of.plain, 1)
        forms += [(f"count_if({condition})", t.BIGINT, True), (f"bool_and({condition})", t.BOOLEAN, True)]
        numbers = [c for c in of.plain if c.type in NUMBERS]
        if numbers:
            some = self.pick(numbers)
            summed = {t.DOUBLE: t.DOUBLE, MONEY: pa.decimal128(20, 2)}.get(some.type, t.BIGINT)
            mean = pa.decimal128(14, 6) if some.type == MONEY else t.DOUBLE
            forms += [(f"sum({some.sql})", summed, True), (f"avg({some.sql})", mean, False)]
            forms.append((f"sum(DISTINCT {some.sql})", summed, True))
            if some.type == t.INT:
                forms += [(f"max({some.sql}) - min({some.sql})", t.INT, True)]
                forms += [(f"stddev_samp({some.sql})", t.DOUBLE, False)]
            forms.append((f"CASE WHEN count(*) > 1 THEN max({some.sql}) END", some.type, True))
        sql, type_, exact = self.pick(forms)
        if sql.endswith(")") and " - " not in sql and self.chance(25):
            sql += f" FILTER (WHERE {self.condition(of.plain, 1)})"
        return sql, type_, exact

    def group(self, of: Rows, most: int = 2) -> list[Typed]:
        """Columns to group by that are no event times."""
        among = [c for c in of.compared if c.sql not in of.times | of.windows]
        return self.draw(st.lists(st.sampled_from(among), max_size=most, unique=True)) if among else []

    def grouped(self, of: Rows, window: str | None, windows: bool) -> Rows:
        """SELECT window, keys, aggregates FROM rows GROUP BY window, keys."""
        columns: list[Typed] = []
        rough: set[str] = set()
        items = []
        made: frozenset[str] = frozenset()
        if window is not None:
            columns.append(Typed(self.name("w"), t.WINDOW))
            items.append(f"{window} AS {columns[0].sql}")
            made = frozenset({columns[0].sql}) if windows else frozenset()
        keys = [c for c in self.group(of) if c.sql != window]
        for key in keys:
            columns.append(Typed(self.name(), key.type))
            items.append(f"{key.sql} AS {columns[-1].sql}")
        named = tuple(c.sql for c in columns)
        items += self.calls(of, columns, rough)
        sql = f"SELECT {', '.join(items)} FROM {of.sql}{self.where(of.plain)}"
        by = [*([window] if window is not None else []), *(key.sql for key in keys)]
        if by:
            sql += f" GROUP BY {', '.join(by)}"
            if self.chance(25):
                sql += f" HAVING {self.pick(['count(*) > 1', 'count(*) % 2 = 1'])}"
        return Rows(sql, columns, frozenset(), made, frozenset(rough), named if window is None else None)

    # -- queries whose rows are final

    def selected(self, depth: int) -> Rows:
        return self.listed(self.rows(depth))

    def windowed(self, depth: int) -> Rows:
        of = self.rows(depth)
        if of.times and self.chance(10):
            time = self.pick(sorted(of.times))
            made = self.grouped(of, time, False)
            column = replace(made.columns[0], type=t.TIMESTAMP)
            return replace(made, columns=[column, *made.columns[1:]], times=frozenset({column.sql}))
        if of.windows and (not of.times or self.chance(50)):
            known = self.pick(sorted(of.windows))
            if self.chance(50):
                return self.grouped(of, known, True)
            return self.grouped(of, f"window({self.pick(['', 'window_time'])}({known}), '1 minute')", True)
        time = self.pick(sorted(of.times))
        window = self.pick(
            [
                f"window({time}, '5 seconds')",
                f"window({time}, '10 seconds', '5 seconds')",
                f"window({time}, '7 seconds', '3 seconds', '2 seconds')",
                f"window({time}, '1 hour', '1 hour', '30 minutes')",
                f"window({time}, '1 day')",
            ]
        )
        return self.grouped(of, window, True)

    def session(self, depth: int) -> Rows:
        of = self.rows(depth)
        if not of.times:
            return self.listed(of)
        gap = self.pick(["250 milliseconds", "1 second", "3 seconds"])
        return self.grouped(of, f"session_window({self.pick(sorted(of.times))}, '{gap}')", False)

    def distinct(self, depth: int) -> Rows:
        made = self.listed(self.rows(depth))
        if any(c not in made.compared for c in made.columns):
            return made
        return replace(made, sql=made.sql.replace("SELECT", "SELECT DISTINCT", 1))

    def first(self, depth: int) -> Rows:
        """The first rows of each window, or of each moment."""
        of = self.rows(depth)
        moment = self.pick(sorted(of.times | of.windows))
        part = f"window({moment}, '10 seconds')" if moment in of.times and self.chance(60) else moment
        keys = [part, *(c.sql for c in self.group(of, 1))]
        return self.ranked(of, keys)

    def ranked(self, of: Rows, partition: list[str], total: tuple[str, ...] = ()) -> Rows:
        """The first rows by a rank; `total`: columns that make the order total."""
        ranking = self.pick(["rank", "dense_rank", "row_number"])
        order = [
            f"{self.pick(of.compared).sql}{self.pick(['', ' DESC', ' ASC NULLS LAST', ' DESC NULLS FIRST'])}"
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        if ranking == "row_number":
            if of.keys is None and len(of.compared) < len(of.columns):
                ranking = "rank"  # rows that are equal in all that can be compared may still differ
            else:
                order += list(total) or [c.sql for c in of.columns]
        place = self.name("r")
        names = {c.sql: self.name() for c in of.columns}
        items = ", ".join(f"{c.sql} AS {names[c.sql]}" for c in of.columns)
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        inner = f"SELECT {items}, {ranking}() OVER ({by}ORDER BY {', '.join(order)}) AS {place} FROM {of.sql}"
        inner += self.where(of.plain)
        limit = self.pick(
            [f"{place} <= 2", f"{place} = 1", f"{place} < 4", f"2 >= {place}", f"{place} IN (1, 3)", f"{place} = 2"]
        )
        columns = [Typed(names[c.sql], c.type) for c in of.columns]
        rest = [c for c in columns if c.type in VALUES and c.sql not in {names.get(r) for r in of.rough}]
        if rest and self.chance(30):
            limit += f" AND ({self.condition(rest, 1)})"

        def kept(among: frozenset[str]) -> frozenset[str]:
            return frozenset(names[c] for c in among)

        shown = [*columns, *([Typed(place, t.INT)] if self.chance(60) else [])]
        sql = f"SELECT {', '.join(c.sql for c in shown)} FROM ({inner}) {self.name('q')} WHERE {limit}"
        keys = None if of.keys is None else tuple(names.get(k, "") for k in of.keys)
        return Rows(sql, shown, kept(of.times), kept(of.windows), kept(of.rough), keys)

    def union(self, depth: int) -> Rows:
        parts = [self.rows(depth), self.rows(depth)]
        moments = [sorted(part.times) or sorted(part.windows) for part in parts]
        of_times = all(part.times for part in parts)
        if not of_times and (any(part.times for part in parts) or not all(moments)):
            return self.listed(parts[0])
        types = [self.pick([*VALUES, NESTED]) for _ in range(self.draw(st.integers(1, 2)))]
        names = [self.name() for _ in range(1 + len(types))]
        selects = []
        for part, moment in zip(parts, moments, strict=True):
            items = [moment[0]]
            for type_ in types:
                own = [c for c in part.columns if c.type == type_ and c.sql not in part.rough]
                made = self.value(part.plain, type_).sql if type_ in VALUES else f"CAST(NULL AS {sql_name(type_)})"
                items.append(self.pick(own).sql if own and self.chance(70) else made)
            selects.append(
                "SELECT "
                + ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
                + f" FROM {part.sql}"
                + self.where(part.plain)
            )
        first = t.TIMESTAMP if of_times else t.WINDOW
        columns = [Typed(name, type_) for name, type_ in zip(names, [first, *types], strict=True)]
        moment = frozenset({names[0]})
        # Windows of several lengths are windows of none.
        return Rows(
            " UNION ALL ".join(selects), columns, *((moment, frozenset()) if of_times else (frozenset(), moment))
        )

    def joined(self, depth: int) -> Rows:
        """Two kinds of final rows, bounded by times or by equal windows."""
        left, right = self.rows(depth), self.rows(self.draw(st.integers(0, depth)))
        names = (self.name("j"), self.name("j"))
        left, right = (self.aliased(each, name) for each, name in zip((left, right), names, strict=True))
        how = self.pick(JOINS)
        if left.windows and right.windows and (self.chance(60) or not (left.times and right.times)):
            on = [f"{self.pick(sorted(left.windows))} = {self.pick(sorted(right.windows))}"]
        elif left.times and right.times:
            low, high = self.pick([(0, 5), (-5, 5), (0, 0), (-10, -1)])
            at = self.pick(sorted(left.times))
            bounds = f"{at} + INTERVAL {low} SECONDS AND {at} + INTERVAL {high} SECONDS"
            on = [f"{self.pick(sorted(right.times))} BETWEEN {bounds}"]
        else:
            return self.listed(left)
        on += self.equal(left, right)
        return self.listed(self.pair(left, right, how, on))

    def met(self, depth: int) -> Rows:
        """Final rows with the current rows of a query that updates."""
        left = self.rows(depth)
        if not left.times:
            return self.listed(left)
        left = self.aliased(left, self.name("j"))
        right = self.aliased(self.read(self.updating(self.draw(st.integers(0, depth)))), self.name("j"))
        return self.listed(self.kept(left, right))

    def looked_up(self, depth: int) -> Rows:
        """Final rows with a static table."""
        left, table = self.rows(depth), self.pick([each for each in self.inputs if each.static])
        left = self.aliased(left, self.name("j"))
        name = self.name("j")
        right = Rows(f"{table.name} AS {name}", [Typed(f"{name}.{f.name}", f.type) for f in table.schema])
        return self.listed(self.kept(left, right))

    def kept(self, rows: Rows, others: Rows) -> Rows:
        """A join that keeps rows, bounded by nothing, written from either side."""
        on = self.equal(rows, others)
        if not on or self.chance(30):
            on.append(f"({self.condition([*rows.plain, *others.plain], 1)})")
        how = self.pick(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        if how in ("JOIN", "LEFT JOIN") and self.chance(30):
            return self.pair(others, rows, how.replace("LEFT", "RIGHT"), on)
        return self.pair(rows, others, how, on)

    def equal(self, left: Rows, right: Rows) -> list[str]:
        """Equal columns of both sides, if there are any of one type."""
        pairs = [(a, b) for a in left.compared for b in right.compared if a.type == b.type != t.WINDOW]
        chosen = self.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2)) if pairs else []
        return [f"{a.sql} {self.pick(['=', '=', '<=>'])} {b.sql}" for a, b in chosen]

    def aliased(self, of: Rows, name: str) -> Rows:
        given = of.sql.rsplit(") ", 1)[0] + ")" if of.sql.startswith("(") else of.sql
        return replace(of.called(name), sql=f"{given} AS {name}")

    def pair(self, left: Rows, right: Rows, how: str, on: list[str]) -> Rows:
        if self.chance(30):
            on = [*on, f"({self.condition([*left.plain, *right.plain], 1)})"]
        sql = f"{left.sql} {how} {right.sql} ON {' AND '.join(on)}"
        if "SEMI" in how or "ANTI" in how:
            return replace(left, sql=sql)
        # A side that may be missing has no event times: its rows come when the other side's time is complete.
        kept = [
            side
            for side, missing in ((left, ("RIGHT JOIN", "FULL JOIN")), (right, ("LEFT JOIN", "FULL JOIN")))
            if how not in missing and side.keys is None
        ]
        times = frozenset(c for side in kept for c in side.times)
        windows = frozenset(c for side in kept for c in side.windows)
        return Rows(sql, [*left.columns, *right.columns], times, windows, left.rough | right.rough)

    # -- queries whose rows are replaced

    def updating(self, depth: int) -> Rows:
        """An aggregate without a window, and queries over it."""
        made = self.grouped(self.rows(depth), None, False)
        for _ in range(self.draw(st.integers(0, 3))):
            of = self.read(made)
            made = self.pick([self.updated, self.leading, self.leading, self.limited])(of)
        return made

    def updated(self, of: Rows) -> Rows:
        return self.listed(of)

    def leading(self, of: Rows) -> Rows:
        """The first of the current rows. `row_number` needs the keys, which make the order total."""
        if not of.compared:
            return self.listed(of)
        assert of.keys is not None
        if "" in of.keys:
            return self.listed(of)
        return self.ranked(of, [c.sql for c in self.group(of, 1)], of.keys)

    def limited(self, of: Rows) -> Rows:
        if not of.compared or of.keys is None or "" in of.keys:
            return self.listed(of)
        order = f"{self.pick(of.compared).sql} {self.pick(['', 'DESC', 'NULLS LAST', 'DESC NULLS FIRST'])}"
        keys = "".join(f", {key}" for key in of.keys)
        taken = [c for c in of.columns if c.sql in of.keys or self.chance(70)]
        made = self.renamed(of, taken, extra=True, condition=True)
        return replace(made, sql=f"{made.sql} ORDER BY {order}{keys} LIMIT {self.pick([1, 2, 5])}")

    def query(self, depth: int) -> Rows:
        kinds = [self.joined, self.windowed, self.first, self.met, self.looked_up]
        kinds += [self.selected, self.union, self.distinct, self.session]
        return self.updating(depth) if self.chance(40) else self.pick(kinds)(depth)


@st.composite
def composed(draw: st.DrawFn, queries: int = 4, depth: int = 2) -> list[Case]:
    """Two streams with rows, and several queries over them."""
    a, rows_a = draw(punctual("a"))
    b, rows_b = draw(punctual("b"))
    u, rows_u = draw(table("u"))
    setup = ";\n".join([*map(declaration, (a, b)), table_declaration(u)]) + ";"
    inputs = {"a": a, "b": b, "u": u}
    batches = {"a": rows_a, "b": rows_b, "u": rows_u}
    options = {"late": "keep", "zone": draw(st.sampled_from(["UTC", "Europe/Berlin"]))}
    found = []
    for number in range(queries):
        composer = Composer(draw, (a, b, u), f"n{number}")
        made = composer.query(draw(st.integers(0, depth)))
        statements = ";\n".join(composer.statements)
        file = Path("composed")
        found.append(
            Case(
                file, number, f"query {number}", setup, inputs, batches, statements, made.sql, None, None, None, options
            )
        )
    return found
