"""Selections, projections, expansions, splits, unions and lookups, row by row."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.expressions import Call, Column, Foreign
from headgate.graph.expressions import Literal as Constant
from headgate.graph.operators import Expand, Lookup, Operator, Project, Select, Source, Split, Union, Window, concat
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, WINDOW, Schema
from headgate.operators.batch import NEVER, Arrival, Batch
from headgate.operators.live import live
from headgate.operators.settings import Settings
from tests.operators.drive import Feed, batch_of, counted, drive, feeds, plain

ROWS = Schema.of(("ts", TIMESTAMP), ("a", BIGINT), ("s", STRING))
SOURCE = Source(ROWS, "s")
row = st.tuples(
    st.one_of(st.none(), st.integers(-9, 30)),
    st.one_of(st.none(), st.integers(-2, 2)),
    st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
)
a = Column(BIGINT, 1)


def number(value: int | None) -> Constant:
    return Constant(BIGINT, value)


def compare(name: str, value: int) -> Call:
    return Call(BOOLEAN, name, (a, number(value)))


def arrived(feed: Feed) -> list[Any]:
    return [r for r, _ in feed.arrivals()]


@given(feeds(row), st.integers(0, 10**6))
def test_select(feed: Feed, seed: int) -> None:
    node = Select(ROWS, SOURCE, (compare("ge", -1), compare("ne", 0)))
    found = drive(node, [[feed]], seed)
    assert counted(found.rows) == counted([r for r in arrived(feed) if r[1] is not None and r[1] >= -1 and r[1] != 0])


@given(feeds(row), st.integers(0, 10**6))
def test_what_may_fail_sees_selected_rows_only(feed: Feed, seed: int) -> None:
    """1 / a fails where a is 0; those rows are filtered out before, under any pending mask."""
    inverse = Call(DOUBLE, "divide", (Constant(DOUBLE, 1.0), Call(DOUBLE, "cast", (a,))))
    safe = Select(ROWS, SOURCE, (compare("ne", 0), Call(BOOLEAN, "gt", (inverse, Constant(DOUBLE, -0.75)))))
    out = Schema.of(("x", DOUBLE))
    select, project = live(safe, Settings()), live(Project(out, safe, (inverse,)), Settings())
    rows = arrived(feed)
    found = []
    if rows:
        for batch in select.process(0, batch_of(ROWS, rows, NEVER)):
            for made in project.process(0, batch):
                found += made.materialized().rows.column(0).to_pylist()
    assert sorted(found) == sorted(1 / r[1] for r in rows if r[1] and 1 / r[1] > -0.75)


@given(feeds(row), st.integers(0, 10**6))
def test_project(feed: Feed, seed: int) -> None:
    out = Schema.of(("s", STRING), ("plus", BIGINT), ("one", BIGINT))
    node = Project(out, SOURCE, (Column(STRING, 2), Call(BIGINT, "add", (a, number(5))), number(1)))
    found = drive(node, [[feed]], seed)
    assert counted(found.rows) == counted([(r[2], None if r[1] is None else r[1] + 5, 1) for r in arrived(feed)])


def test_project_keeps_the_mask_of_plain_columns() -> None:
    """No row is copied while a projection only picks columns."""
    project = live(Project(Schema.of(("a", BIGINT)), SOURCE, (a,)), Settings())
    batch = batch_of(ROWS, [(1, 1, "a"), (2, 2, "b")], NEVER)
    batch.mask = pa.array([False, True])
    (made,) = project.process(0, batch)
    assert made.mask is batch.mask
    assert made.rows.column(0).buffers()[1].address == batch.rows.column(1).buffers()[1].address


def test_columns_that_catalyst_computed() -> None:
    """They travel behind the stream's own columns, under their key, also where rows are taken."""
    upper = Foreign(STRING, "upper(s)", frozenset({2}))
    rows = pa.table({"ts": pa.array([1, 2], TIMESTAMP), "a": [1, 2], "s": ["x", "y"], upper.key: ["X", "Y"]})
    batch = Batch(rows.to_batches()[0], Arrival.at(0.0, 2), mask=pa.array([False, True]))
    project = live(Project(Schema.of(("a", BIGINT), ("u", STRING)), SOURCE, (a, upper)), Settings())
    (made,) = project.process(0, batch)
    assert made.materialized().rows.to_pylist() == [{"a": 2, "u": "Y"}]


@given(feeds(row), st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_expand(feed: Feed, length: int, slide: int, seed: int) -> None:
    slide, length = min(slide, length), max(slide, length)
    schema = concat(ROWS, Schema.of(("w", WINDOW)))
    found = drive(Expand(schema, SOURCE, Window("time", length, slide, 0, Column(TIMESTAMP, 0))), [[feed]], seed)
    wanted = [
        (*r, (start, start + length))
        for r in arrived(feed)
        if r[0] is not None
        for start in range(-50, 50)
        if start % slide == 0 and start <= r[0] < start + length
    ]
    assert counted(found.rows) == counted(wanted)


@given(feeds(row), st.integers(0, 10**6))
def test_split(feed: Feed, seed: int) -> None:
    schema = concat(ROWS, Schema.of(("route", INT)))
    found = drive(Split(schema, SOURCE, (compare("gt", 0), compare("gt", -2))), [[feed]], seed)

    def route(value: int | None) -> int:
        return 2 if value is None or value <= -2 else (0 if value > 0 else 1)

    assert counted(found.rows) == counted([(*r, route(r[1])) for r in arrived(feed)])


@given(feeds(row), feeds(row), st.integers(0, 10**6))
def test_union(first: Feed, second: Feed, seed: int) -> None:
    found = drive(Union(ROWS, (SOURCE, Source(ROWS, "t"))), [[first], [second]], seed)
    assert counted(found.rows) == counted(arrived(first) + arrived(second))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@given(
    feeds(row),
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-2, 2)), st.one_of(st.none(), st.integers(0, 3))), max_size=6),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_lookup(
    how: Literal["inner", "left", "semi", "anti"],
    feed: Feed,
    table: list[Any],
    keyed: bool,
    residual: bool,
    seed: int,
) -> None:
    own = Schema.of(("k", BIGINT), ("v", BIGINT))
    schema = ROWS if how in ("semi", "anti") else concat(ROWS, own)
    less = Call(BOOLEAN, "lt", (a, Column(BIGINT, 4)))
    keys = ((a,), (Column(BIGINT, 0),)) if keyed else ((), ())
    node = Lookup(schema, SOURCE, "t", own, how, *keys, (less,) if residual else ())
    rows = pa.table({"k": pa.array([t[0] for t in table], BIGINT), "v": pa.array([t[1] for t in table], BIGINT)})
    found = drive(node, [[feed]], seed, settings=Settings({"t": rows}))

    def meet(r: Any, t: Any) -> bool:
        same = not keyed or (r[1] is not None and r[1] == t[0])
        return same and (not residual or (r[1] is not None and t[1] is not None and r[1] < t[1]))

    wanted = []
    for r in arrived(feed):
        partners = [t for t in table if meet(r, t)]
        if how in ("semi", "anti"):
            wanted += [r] if bool(partners) == (how == "semi") else []
        else:
            wanted += [(*r, *t) for t in partners]
            wanted += [(*r, None, None)] if how == "left" and not partners else []
    assert counted(found.rows) == counted(wanted)


def test_lookup_refuses_what_would_wait() -> None:
    node = Lookup(ROWS, SOURCE, "t", ROWS, "full", (a,), (a,))
    with pytest.raises(ValueError, match="put the stream on the side that is kept"):
        live(node, Settings({"t": ROWS.arrow().empty_table()}))
    with pytest.raises(ValueError, match="table t were not given"):
        live(Lookup(ROWS, SOURCE, "t", ROWS, "inner", (a,), (a,)), Settings())


def test_comparisons_are_shared() -> None:
    """Two selections over the same rows compute a common comparison once."""
    nodes: list[Operator] = [Select(ROWS, SOURCE, (compare("gt", 0), compare("lt", n))) for n in (5, 6)]
    batch = batch_of(ROWS, [(1, 1, "a"), (2, 5, "b")], NEVER)
    kept = list(itertools.chain(*(live(node, Settings()).process(0, batch) for node in nodes)))
    assert [plain(k.materialized().rows.num_rows) for k in kept] == [1, 2]
    assert sum(expr == compare("gt", 0) for expr in batch.computed) == 1
    assert kept[0].rows is kept[1].rows
