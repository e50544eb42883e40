"""What is registered runs: every kind of operator over every type, and whatever no operator can do is refused before.

Each form of query is written once with a hole for a column; walked over all types, a query is either refused with
its place in the text, or it takes rows (nulls among them), moves its state through a file, and puts them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headgate.graph import types as t
from headgate.graph.shared import SharedGraph
from headgate.operators.contract import Snapshot
from headgate.operators.runner import Runner, RunnerSnapshot
from headgate.operators.settings import Settings
from headgate.sql import Catalog, SqlError
from tests.oracle.headgate_side import foreign

START = datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC)

# Two different values of each type; a null stands between them.
VALUES: dict[str, tuple[Any, Any]] = {
    "BOOLEAN": (True, False),
    "TINYINT": (1, -2),
    "SMALLINT": (1, -2),
    "INT": (1, -2),
    "BIGINT": (1, -(2**31)),
    "FLOAT": (1.5, float("nan")),
    "DOUBLE": (-0.0, float("nan")),
    "DECIMAL(10,2)": (Decimal("1.25"), Decimal("-3.00")),
    "DECIMAL(38,0)": (Decimal(10) ** 18, Decimal(-1)),
    "DECIMAL(38,38)": (Decimal("0.5"), Decimal("-0.25")),
    "STRING": ("2024", "2025"),
    "BINARY": (b"a", b""),
    "DATE": (date(2024, 2, 29), date(1969, 7, 20)),
    "TIMESTAMP": (START, START + timedelta(hours=1)),
    "TIMESTAMP_NTZ": (START.replace(tzinfo=None), START.replace(tzinfo=None) + timedelta(days=1)),
    "INTERVAL DAY TO SECOND": (timedelta(hours=1), timedelta(days=-1)),
    "ARRAY<INT>": ([1, None], []),
    "MAP<STRING,INT>": ([("a", 1)], []),
    "STRUCT<a:INT,b:STRING>": ({"a": 1, "b": "x"}, {"a": None, "b": ""}),
    "STRUCT<a:STRUCT<b:DOUBLE>>": ({"a": {"b": float("nan")}}, {"a": None}),
    "STRUCT<a:ARRAY<INT>>": ({"a": [1]}, {"a": None}),
    "ARRAY<STRUCT<a:INT>>": ([{"a": 1}], [None]),
}
ALIKE = {"TINYINT", "SMALLINT", "FLOAT", "DECIMAL(38,0)", "STRUCT<a:ARRAY<INT>>"}
"""Types that the operators treat as another type of the list."""
MINUTE = "'1 minute'"
AGGREGATES = [
    *("count", "sum", "avg", "min", "max", "first", "last", "any_value", "stddev", "var_pop", "skewness", "kurtosis"),
    *("bool_and", "bool_or", "count_if", "approx_count_distinct"),
]
CALLS = [
    *("min_by({c}, id)", "max_by(id, {c})", "max_by({c}, {c})", "count({c}, id)", "count(DISTINCT {c}, id)"),
    *("first({c}) IGNORE NULLS", "last({c}) FILTER (WHERE id > 1)", "corr({c}, {c})", "covar_pop({c}, id)"),
]
BOUND = "b.bt BETWEEN a.at AND a.at + INTERVAL 5 SECONDS"


def forms() -> Iterator[tuple[str, str]]:
    """Queries by name; {c} is the column of the type, a and b are streams, f is a static table."""
    yield "project", "SELECT {c} FROM a"
    for word in ("=", "<", "<=>", "+", "*", "||"):
        yield f"compute {word}", f"SELECT {{c}} {word} {{c}} AS x FROM a"
        yield f"select {word}", f"SELECT id FROM a WHERE ({{c}} {word} {{c}}) IS NOT NULL"
    for call in ("coalesce({c}, {c})", "nullif({c}, {c})", "CASE WHEN id > 0 THEN {c} END", "greatest({c}, {c})"):
        yield f"compute {call}", f"SELECT {call} AS x FROM a"
    for call in ("CAST({c} AS STRING)", "{c} IN ({c}, NULL)", "{c} BETWEEN {c} AND {c}", "array({c})", "struct({c})"):
        yield f"compute {call}", f"SELECT {call} AS x FROM a"
    for call in ("hash({c})", "abs({c})", "-{c}", "length({c})", "year({c})", "hour({c})", "size({c})", "{c} IS NULL"):
        yield f"compute {call}", f"SELECT {call} AS x FROM a"
    yield "project a python call", "SELECT id_of_{n}({c}) AS x FROM a"
    yield "window of the column", "SELECT count(*) AS n FROM a GROUP BY window({c}, '1 minute')"
    yield "expand", f"SELECT window(at, {MINUTE}, '20 seconds') AS w, {{c}} FROM a"
    yield "split", "SELECT id FROM some"
    windows = {
        "tumbling": f"window(at, {MINUTE}), ",
        "hopping": f"window(at, {MINUTE}, '20 seconds'), ",
        "session": "session_window(at, '5 seconds'), ",
        "rows": "rows_window(3, 2), ",
        "event time": "at, ",
        "unwindowed": "",
    }
    for name, window in windows.items():
        yield f"{name} key", f"SELECT {{c}}, count(*) AS n FROM a GROUP BY {window}{{c}}"
        for call in AGGREGATES:
            yield f"{name} {call}", f"SELECT {call}({{c}}) AS x FROM a GROUP BY {window}id"
        for call in ("count", "sum", "avg", "min", "max", "stddev"):
            yield f"{name} {call} distinct", f"SELECT {call}(DISTINCT {{c}}) AS x FROM a GROUP BY {window}id"
        for call in CALLS:
            yield f"{name} {call}", f"SELECT {call} AS x FROM a GROUP BY {window}id"
        yield f"{name} having", f"SELECT count(*) AS n FROM a GROUP BY {window}id HAVING max({{c}}) IS NOT NULL"
    yield "distinct", "SELECT DISTINCT at, {c} FROM a"
    yield "distinct of a window", f"SELECT DISTINCT window(at, {MINUTE}) AS w, {{c}} FROM a"
    yield "union", "SELECT at, {c} FROM a UNION ALL SELECT bt, {c} FROM b"
    yield "union distinct", "SELECT at, {c} FROM a UNION SELECT bt, {c} FROM b"
    for how in ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"):
        yield f"{how} join on it", f"SELECT a.{{c}} AS x FROM a {how} JOIN b ON a.{{c}} = b.{{c}} AND {BOUND}"
        yield f"{how} join with it", f"SELECT a.{{c}} AS x FROM a {how} JOIN b ON a.id = b.id AND {BOUND}"
        yield (
            f"{how} join under it",
            f"SELECT a.id AS x FROM a {how} JOIN b ON a.id = b.id AND {BOUND} AND (a.{{c}} < b.{{c}} OR a.id > 1)",
        )
        yield f"{how} lookup on it", f"SELECT a.{{c}} AS x FROM a {how} JOIN f ON a.{{c}} = f.{{c}}"
        yield f"{how} lookup with it", f"SELECT * FROM (SELECT a.{{c}} AS x FROM a {how} JOIN f ON a.id = f.id)"
        yield f"{how} lookup, null safe", f"SELECT a.id AS x FROM a {how} JOIN f ON a.{{c}} <=> f.{{c}}"
        yield f"{how} lookup, table first", f"SELECT a.id AS x FROM f {how} JOIN a ON a.{{c}} = f.{{c}}"
    yield "join of the column in time", "SELECT a.id FROM a JOIN b ON b.{c} BETWEEN a.{c} AND a.{c} + INTERVAL 1 SECOND"
    for rank in ("row_number", "rank", "dense_rank"):
        for end in ("", " DESC NULLS LAST"):
            over = f"(PARTITION BY window(at, {MINUTE}) ORDER BY {{c}}{end})"
            yield f"{rank} by it{end}", f"SELECT * FROM (SELECT id, {rank}() OVER {over} AS r FROM a) WHERE r <= 2"
        over = f"(PARTITION BY window(at, {MINUTE}), {{c}} ORDER BY id)"
        yield f"{rank} of it", f"SELECT * FROM (SELECT {{c}}, {rank}() OVER {over} AS r FROM a) WHERE r <= 2"
    lowest = f"SELECT window(at, {MINUTE}) AS w, min({{c}}) AS x FROM a GROUP BY 1"
    yield "aggregate of an aggregate", f"SELECT w, max(x) AS y FROM ({lowest}) GROUP BY w"


def declared(type_: str) -> Catalog:
    """Streams a and b and a table f, each with a column of the type."""
    catalog = Catalog()
    for stream, time in (("a", "at"), ("b", "bt")):
        catalog.execute(
            f"CREATE STREAM {stream} (id INT, {time} TIMESTAMP, c {type_}, "
            f"WATERMARK FOR {time} AS {time} - INTERVAL 5 SECONDS) USING rate"
        )
    catalog.execute(f"CREATE TABLE f (id INT, c {type_}) USING parquet OPTIONS (path 'in')")
    catalog.execute(
        f"CREATE FUNCTION id_of(x {type_}) RETURNS {type_} AS 'tests.sql.test_registered_runs:same';"
        "CREATE SPLIT OF a INTO some WHEN c IS NOT NULL, rest OTHERWISE"
    )
    return catalog


def same(values: pa.Array) -> pa.Array:
    """A Python function over Arrow arrays."""
    return values


def batch(schema: pa.Schema, first: int, values: list[Any]) -> pa.RecordBatch:
    """Rows one second apart; rows of a table have no time."""
    rows = range(first, first + len(values))
    columns = {"id": [n % 3 for n in rows], "c": values}
    times = [START + timedelta(seconds=n) for n in rows]
    return pa.RecordBatch.from_arrays([pa.array(columns.get(f.name, times), f.type) for f in schema], schema=schema)


def through_a_file(snapshot: RunnerSnapshot) -> RunnerSnapshot:
    """A snapshot as it is read back from disk."""

    def again(table: pa.Table) -> pa.Table:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_stream(sink.getvalue()).read_all().combine_chunks()

    operators = {
        number: Snapshot({key: again(table) for key, table in state.parts.items()}, state.meta)
        for number, state in snapshot.operators.items()
    }
    return RunnerSnapshot(operators, snapshot.watermarks, snapshot.results)


def run(catalog: Catalog, name: str, values: tuple[Any, Any]) -> pa.Table:
    """The results of a query over a few rows, with its state written to a file and read back in between."""
    one, other = values
    schemas = {s: catalog.streams[s].schema.arrow() for s in ("a", "b")}
    table = pa.Table.from_batches([batch(catalog.tables["f"].schema.arrow(), 0, [one, None, other, one])])
    graph = SharedGraph()
    graph.add(catalog.queries[name])
    settings = Settings(tables={"f": table})
    runner = Runner(graph, settings)
    read = {source.stream for _, source in graph.sources()}
    extra = foreign(catalog.queries[name].plan)  # Catalyst is not here: what it computes is null
    for number, given in enumerate(([one, None, one, other], [], [other, one, None])):
        for stream in sorted(read):
            rows = batch(schemas[stream], 4 * number, given)
            for expr in extra.get(stream, ()):
                rows = rows.append_column(expr.key, pa.nulls(rows.num_rows, expr.type))
            runner.push(stream, rows)
        state = runner.snapshot()
        runner = Runner(graph, settings)
        runner.restore(through_a_file(state))
    runner.finish()
    return runner.results(name)


@pytest.mark.parametrize(
    "type_", [pytest.param(each, marks=pytest.mark.slow) if each in ALIKE else each for each in VALUES]
)
def test_what_is_registered_runs(type_: str) -> None:
    catalog = declared(type_)
    problems, accepted, refused = [], 0, 0
    for name, form in forms():
        select = form.replace("{c}", "c").replace("id_of_{n}", "id_of")
        try:
            catalog.query("q", select)
        except SqlError as error:
            refused += 1
            if not re.match(r"q:\d+:\d+: \S.{20,}", str(error)):
                problems.append(f"{name}: {select}\n    poor message: {error}")
            continue
        except Exception as error:
            problems.append(f"{name}: {select}\n    at registration {type(error).__name__}: {error}")
            continue
        accepted += 1
        try:
            found = run(catalog, "q", VALUES[type_])
            expected = [t.sql_name(f.type) for f in catalog.queries["q"].schema.fields]
            assert [t.sql_name(f.type) for f in found.schema] == expected
            found.validate(full=True)
        except Exception as error:
            problems.append(f"{name}: {select}\n    {type(error).__name__}: {str(error)[:300]}")
        finally:
            catalog.drop_query("q")
    assert not problems, f"{type_}: {len(problems)} of {accepted} fail\n" + "\n".join(problems)
    assert accepted > 30
    assert refused > 5
