"""Tests of tables with transactions as streams, and as static tables that change.

The tests of each format inherit them, so that they run in its own session.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.connectors.registry import SparkStreams, open_table, versions_of
from headgate.graph.queries import Table
from headgate.spark.source_rows import SourceError
from tests.arriving import arrive_json
from tests.connectors.declared import clause, stream_of
from tests.table_formats.lake import Lake
from tests.waiting import wait_until


class SourceTests:
    """What holds for the source and the static tables of every format."""

    skips_changes: str
    """The option that the format names when a stream's table has changed or lost rows."""

    @pytest.mark.parametrize("by", ["path", "table"])
    def test_rows_are_read_once_across_restarts(self, lake: Lake, tmp_path: Path, by: str) -> None:
        options = lake.place(tmp_path, by, "source")
        lake.create("k STRING, v INT, other INT", options)
        written = []
        for life in range(3):
            engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
            engine.execute(
                f"""CREATE STREAM s (v BIGINT, k STRING) USING {lake.format} {clause(options)};
                CREATE QUERY q INTO parquet OPTIONS (path '{tmp_path}/out') AS SELECT k, v FROM s"""
            )
            if life < 2:
                engine.start()
            for number in range(2):
                value = 2 * life + number
                lake.sql(f"INSERT INTO {{}} VALUES ('a', {value}, 0), (NULL, {value}, 0)", options)
                written += [("a", value), (None, value)]
                if life < 2:
                    _wait_for(lake.spark, tmp_path, len(written))
            lake.maintain(options)
            if life < 2:
                engine.stop()
            else:
                engine.run_once()
        found = map(tuple, lake.spark.read.parquet(f"{tmp_path}/out").collect())
        assert sorted(found, key=repr) == sorted(written, key=repr)

    def test_what_a_stream_is_refused_for(self, lake: Lake, tmp_path: Path) -> None:
        def refused(options: Mapping[str, str], columns: str) -> str:
            with pytest.raises(SourceError) as error:
                SparkStreams(lake.spark).open([stream_of(lake.format, clause(options), columns)])
            assert "\n" not in str(error.value)
            return str(error.value)

        options = lake.place(tmp_path, "path", "narrow")
        assert refused(options, "k STRING").startswith(f"stream s: source {lake.format}: table {options['path']}: ")
        assert "no_such_table" in refused({"table": "no_such_table"}, "k STRING")
        lake.create("k STRING", options)
        assert refused(options, "k STRING, v INT") == (
            f"stream s: source {lake.format}: table {options['path']} gives no column v; it gives k"
        )
        with pytest.raises(hg.SqlError, match="give either path or table"):
            stream_of(lake.format, clause({**options, "table": "t"}), "k STRING")

    def test_a_stream_whose_table_changes_its_rows(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "changing")
        lake.create("k STRING", options)
        lake.sql("INSERT INTO {} VALUES ('a'), ('b')", options)
        said = self.failure(lake, tmp_path, options, "UPDATE {} SET k = 'c' WHERE k = 'b'", "b")
        assert self.skips_changes in said

    def failure(self, lake: Lake, tmp_path: Path, options: Mapping[str, str], change: str, last: str) -> str:
        """How a stream fails whose table a statement changes when the stream has been read up to a row."""
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
        engine.execute(
            f"""CREATE STREAM s (k STRING) USING {lake.format} {clause(options)};
            CREATE QUERY q AS SELECT k FROM s"""
        )
        engine.start()
        try:
            wait_until(lambda: last in engine.results("q").column("k").to_pylist())
            lake.sql(change, options)
            with pytest.raises(Exception) as error:
                engine.wait(600)
        finally:
            engine.stop()
        assert "\n" not in str(error.value)
        return str(error.value)

    @pytest.mark.parametrize("by", ["path", "table"])
    def test_a_static_table_is_read_again_when_a_version_changed_rows(
        self, lake: Lake, tmp_path: Path, by: str
    ) -> None:
        options = lake.place(tmp_path, by, "joined")
        lake.create("k STRING, name STRING", options)
        for k in "ab":
            lake.sql(f"INSERT INTO {{}} VALUES ('{k}', 'one')", options)
        (tmp_path / "in").mkdir()
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
        engine.execute(
            f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
            CREATE TABLE t (k STRING, name STRING) USING {lake.format} {clause(options)} REFRESH ON CHANGE;
            CREATE QUERY q AS SELECT v, name FROM s JOIN t ON s.k = t.k"""
        )
        engine.start()

        def joined(number: int) -> list[tuple[int, str]]:
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": "a", "v": number}])
            wait_until(lambda: engine.results("q").num_rows == number)
            return [tuple(row.values()) for row in engine.results("q").to_pylist()]

        try:
            assert joined(1) == [(1, "one")]
            lake.maintain(options)
            lake.sql("UPDATE {} SET name = 'two' WHERE k = 'a'", options)
            wait_until(lambda: engine.metrics()["tables"]["t"]["version"] > 1)
            # The maintenance before it made no version.
            assert engine.metrics()["tables"]["t"] == {"version": 2, "rows": 2, "error": None}
            assert joined(2)[-1] == (2, "two")
            lake.sql("DELETE FROM {}", options)
            wait_until(lambda: engine.metrics()["tables"]["t"]["rows"] == 0)
        finally:
            engine.stop()

    @pytest.mark.parametrize("by", ["path", "table"])
    def test_versions_that_change_no_rows(self, lake: Lake, tmp_path: Path, by: str) -> None:
        options = lake.place(tmp_path, by, "versions")
        lake.create("k STRING", options)
        declared = self.declared(lake, options, on_change=True)
        versions = versions_of(lake.spark, declared)
        assert versions is not None
        empty = versions()
        lake.sql("INSERT INTO {} VALUES ('a')", options)
        first = versions()
        assert versions() == first != empty
        for statement in lake.maintenance(lake.named(options)):
            lake.sql(statement.replace("{", "{{").replace("}", "}}"), options)
            assert versions() == first
        seen = [first]
        for change in ("INSERT INTO {} VALUES ('b')", "DELETE FROM {} WHERE k = 'a'"):
            lake.sql(change, options)
            lake.maintain(options)
            assert versions() not in seen
            seen.append(versions())
        assert [tuple(row) for row in open_table(lake.spark, declared).collect()] == [("b",)]
        if by == "table":
            lake.sql("DROP TABLE {}", options)
            lake.create("k STRING", options)
            assert versions() not in seen

    def test_what_a_static_table_is_refused_for(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "nothing")
        with pytest.raises(SourceError) as error:
            open_table(lake.spark, self.declared(lake, options))
        assert str(error.value).startswith(f"table t: source {lake.format}: ")
        assert options["path"] in str(error.value)
        assert "\n" not in str(error.value)

    def declared(self, lake: Lake, options: Mapping[str, str], **rest: Any) -> Table:
        """A static table with one column."""
        schema = stream_of("rate", "", "k STRING").schema
        return Table("t", schema, lake.format, dict(options), **rest)


def _wait_for(spark: Any, root: Path, rows: int) -> None:
    wait_until(lambda: list((root / "out").glob("*.parquet")) and spark.read.parquet(f"{root}/out").count() == rows)
