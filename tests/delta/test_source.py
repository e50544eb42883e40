"""Delta tables as streams and as static tables that change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.connectors.registry import SparkStreams, open_table, versions_of
from headgate.graph.queries import Table
from headgate.spark.source_rows import SourceError
from tests.arriving import arrive_json
from tests.connectors.declared import stream_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _place(tmp_path: Path, by: str) -> tuple[str, str]:
    """The options of a table, and its name in SQL."""
    if by == "path":
        return f"path '{tmp_path}/table'", f"delta.`{tmp_path}/table`"
    name = f"source_{tmp_path.name.replace('-', '_')}"
    return f"table '{name}'", name


@pytest.mark.parametrize("by", ["path", "table"])
def test_rows_are_read_once_across_restarts(delta: Any, tmp_path: Path, by: str) -> None:
    options, table = _place(tmp_path, by)
    delta.sql(f"CREATE TABLE {table} (k STRING, v INT, other INT) USING delta")
    written = []
    for life in range(3):
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=delta)
        engine.execute(
            f"""CREATE STREAM s (v BIGINT, k STRING) USING delta OPTIONS ({options});
            CREATE QUERY q INTO parquet OPTIONS (path '{tmp_path}/out') AS SELECT k, v FROM s"""
        )
        if life < 2:
            engine.start()
        for number in range(2):
            value = 2 * life + number
            delta.sql(f"INSERT INTO {table} VALUES ('a', {value}, 0), (NULL, {value}, 0)")
            written += [("a", value), (None, value)]
            if life < 2:
                _wait_for(delta, tmp_path, len(written))
        delta.sql(f"OPTIMIZE {table}")
        if life < 2:
            engine.stop()
        else:
            engine.run_once()
    assert sorted(map(tuple, delta.read.parquet(f"{tmp_path}/out").collect()), key=repr) == sorted(written, key=repr)


def _wait_for(spark: Any, root: Path, rows: int) -> None:
    wait_until(lambda: list((root / "out").glob("*.parquet")) and spark.read.parquet(f"{root}/out").count() == rows)


def test_what_a_stream_is_refused_for(delta: Any, tmp_path: Path) -> None:
    def refused(options: str, columns: str) -> str:
        with pytest.raises(SourceError) as error:
            SparkStreams(delta).open([stream_of("delta", f"OPTIONS ({options})", columns)])
        assert "\n" not in str(error.value)
        return str(error.value)

    options, table = _place(tmp_path, "path")
    assert refused(options, "k STRING").startswith("stream s: source delta: ")
    assert "no_such_table" in refused("table 'no_such_table'", "k STRING")
    delta.sql(f"CREATE TABLE {table} (k STRING) USING delta")
    assert refused(options, "k STRING, v INT") == (
        f"stream s: source delta: table {tmp_path}/table gives no column v; it gives k"
    )
    with pytest.raises(hg.SqlError, match="give either path or table"):
        stream_of("delta", f"OPTIONS ({options}, table 't')", "k STRING")


def test_a_stream_whose_table_changes_its_columns_or_rows(delta: Any, tmp_path: Path) -> None:
    _, table = _place(tmp_path, "path")
    delta.sql(f"CREATE TABLE {table} (k STRING) USING delta")
    delta.sql(f"INSERT INTO {table} VALUES ('a')")
    script = f"""CREATE STREAM s (k STRING) USING delta OPTIONS (path '{tmp_path}/table');
        CREATE QUERY q AS SELECT k FROM s"""

    def failure(change: str, last: str) -> str:
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=delta)
        engine.execute(script)
        engine.start()
        try:
            wait_until(lambda: engine.results("q").column("k").to_pylist()[-1:] == [last])
            delta.sql(change.format(table))
            with pytest.raises(Exception) as error:
                engine.wait(600)
        finally:
            engine.stop()
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "schema" in failure("ALTER TABLE {} ADD COLUMNS (v INT)", "a").lower()
    # A restart reads the table with its new columns.
    delta.sql(f"INSERT INTO {table} VALUES ('b', 1)")
    assert "skipChangeCommits" in failure("UPDATE {} SET k = 'c' WHERE k = 'b'", "b")


@pytest.mark.parametrize("by", ["path", "table"])
def test_a_static_table_is_read_again_when_a_version_changed_rows(delta: Any, tmp_path: Path, by: str) -> None:
    options, table = _place(tmp_path, by)
    delta.sql(f"CREATE TABLE {table} (k STRING, name STRING) USING delta")
    for k in "ab":
        delta.sql(f"INSERT INTO {table} VALUES ('{k}', 'one')")
    (tmp_path / "in").mkdir()
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=delta)
    engine.execute(
        f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE TABLE t (k STRING, name STRING) USING delta OPTIONS ({options}) REFRESH ON CHANGE;
        CREATE QUERY q AS SELECT v, name FROM s JOIN t ON s.k = t.k"""
    )
    engine.start()

    def joined(number: int) -> list[tuple[int, str]]:
        arrive_json(tmp_path / "in" / f"{number}.json", [{"k": "a", "v": number}])
        wait_until(lambda: engine.results("q").num_rows == number)
        return [tuple(row.values()) for row in engine.results("q").to_pylist()]

    try:
        assert joined(1) == [(1, "one")]
        delta.sql(f"OPTIMIZE {table}")
        delta.sql(f"VACUUM {table}")
        delta.sql(f"UPDATE {table} SET name = 'two' WHERE k = 'a'")
        wait_until(lambda: engine.metrics()["tables"]["t"]["version"] > 1)
        # The two maintenance commands before it made no version.
        assert engine.metrics()["tables"]["t"] == {"version": 2, "rows": 2, "error": None}
        assert joined(2)[-1] == (2, "two")
        delta.sql(f"DELETE FROM {table}")
        wait_until(lambda: engine.metrics()["tables"]["t"]["rows"] == 0)
    finally:
        engine.stop()


@pytest.mark.parametrize("by", ["path", "table"])
def test_versions_that_change_no_rows(delta: Any, tmp_path: Path, by: str) -> None:
    options, table = _place(tmp_path, by)
    delta.sql(f"CREATE TABLE {table} (k STRING) USING delta")
    delta.sql(f"INSERT INTO {table} VALUES ('a')")
    place = {"path": f"{tmp_path}/table"} if by == "path" else {"table": table}
    declared = Table("t", stream_of("delta", f"OPTIONS ({options})", "k STRING").schema, "delta", place, on_change=True)
    versions = versions_of(delta, declared)
    assert versions is not None
    first = versions()
    assert versions() == first
    for maintenance in (f"OPTIMIZE {table}", f"VACUUM {table}"):
        delta.sql(maintenance)
        assert versions() == first
    seen = [first]
    for change in (f"INSERT INTO {table} VALUES ('b')", f"DELETE FROM {table} WHERE k = 'a'"):
        delta.sql(change)
        delta.sql(f"OPTIMIZE {table}")
        assert versions() not in seen
        seen.append(versions())
    assert [tuple(row) for row in open_table(delta, declared).collect()] == [("b",)]
    if by == "table":
        delta.sql(f"DROP TABLE {table}")
        delta.sql(f"CREATE TABLE {table} (k STRING) USING delta")
        assert versions() not in seen
