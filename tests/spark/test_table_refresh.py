"""Static tables that change: when they are read again, and from when on joins see the new rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.graph.queries import Stream, Table
from headgate.graph.shared import SharedGraph
from headgate.graph.types import INT, STRING, Schema
from headgate.operators.settings import Settings
from headgate.runtime.network import Network
from headgate.spark.table_refresh import TableRefresh
from headgate.sql import Catalog
from tests.arriving import arrive_json
from tests.waiting import wait_until

SCHEMA = Schema.of(("k", STRING), ("name", STRING))


def _names(**names: str) -> pa.Table:
    return pa.table({"k": list(names), "name": list(names.values())})


class Reads:
    """Stands in for Spark: what is read next, or the error."""

    def __init__(self) -> None:
        self.rows: pa.Table | Exception = _names(a="one")
        self.count = 0
        self.changes: list[pa.Table] = []

    def __call__(self, table: Table) -> pa.Table:
        self.count += 1
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


def test_a_table_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,one\n")
    reads = Reads()
    refresh = TableRefresh(None, reads, lambda _, rows: reads.changes.append(rows), look=0.01)
    table = Table("t", SCHEMA, "csv", {"path": str(file)}, on_change=True)
    refresh.watch(table, _names(a="one"), refresh.fingerprint(table))
    try:
        # The same rows again are no new version.
        os.utime(file, (1, 1))
        wait_until(lambda: reads.count == 1)
        reads.rows = _names(a="two")
        file.write_text("a,two\n")
        wait_until(lambda: reads.changes == [_names(a="two")])
        reads.rows = ValueError("half a file")
        file.write_text("a,")
        wait_until(lambda: refresh.report()["t"]["error"] == "half a file")
        assert refresh.report()["t"]["version"] == 2
        reads.rows = _names(a="three")
        wait_until(lambda: refresh.report() == {"t": {"version": 3, "rows": 1, "error": None}})
    finally:
        refresh.close()


@pytest.mark.spark
def test_files_of_a_pattern(spark: Any, tmp_path: Path) -> None:
    for name in ("a1", "a2", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text("a,one\n")
    refresh = TableRefresh(spark, Reads(), lambda *_: None)
    table = Table("t", SCHEMA, "csv", {"path": f"{tmp_path}/{{a1,a2}}/*.csv"}, on_change=True)
    before = refresh.fingerprint(table)
    assert before
    (tmp_path / "b" / "t.csv").write_text("a,other\n")
    assert refresh.fingerprint(table) == before
    (tmp_path / "a2" / "t.csv").write_text("a,other\n")
    assert refresh.fingerprint(table) != before
    nothing = Table("n", SCHEMA, "csv", {"path": f"{tmp_path}/x*"}, on_change=True)
    assert refresh.fingerprint(nothing) == []


def test_a_table_is_read_again_when_its_time_has_come() -> None:
    reads = Reads()
    refresh = TableRefresh(None, reads, lambda _, rows: reads.changes.append(rows))
    refresh.watch(Table("t", SCHEMA, "jdbc", {}, refresh=10_000), _names(a="one"), None)
    try:
        wait_until(lambda: reads.count >= 2)
        reads.rows = _names(a="two")
        wait_until(lambda: reads.changes == [_names(a="two")])
    finally:
        refresh.close()


def test_the_next_rows_join_with_the_new_version() -> None:
    catalog = Catalog()
    catalog.add_stream(Stream("s", Schema.of(("k", STRING), ("v", INT))))
    catalog.execute("CREATE TABLE t (k STRING, name STRING) USING csv OPTIONS (path 'x') REFRESH EVERY '10 minutes'")
    assert catalog.tables["t"].refresh == 600_000_000
    graph = SharedGraph()
    graph.add(catalog.query("q", "SELECT s.k, v, name FROM s LEFT JOIN t ON s.k = t.k"))
    network = Network(graph, "fifo", Settings(tables={"t": _names(a="one")}))
    found: list[Any] = []
    for version, value in ((None, 1), (_names(a="two", b="B"), 2), (_names(), 3)):
        if version is not None:
            network.renew_tables(Settings(tables={"t": version}))
        rows = pa.table({"k": ["a", "b"], "v": pa.array([value] * 2, pa.int32())})
        network.push("s", rows.to_batches()[0])
        while network.step():
            pass
        found += [tuple(row.values()) for batch in network.take("q") for row in batch.rows.to_pylist()]
    assert sorted(found, key=repr) == sorted(
        [("a", 1, "one"), ("b", 1, None), ("a", 2, "two"), ("b", 2, "B"), ("a", 3, None), ("b", 3, None)], key=repr
    )
    network.close()


@pytest.mark.spark
@pytest.mark.slow
def test_a_running_engine_follows_its_tables(spark: Any, tmp_path: Path) -> None:
    arrive_json(tmp_path / "t" / "t.json", [{"k": "a", "name": "one"}])
    (tmp_path / "in").mkdir()
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(
        f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE TABLE t (k STRING, name STRING) USING json OPTIONS (path '{tmp_path}/t') REFRESH ON CHANGE;
        CREATE QUERY q AS SELECT v, name FROM s JOIN t ON s.k = t.k"""
    )
    engine.start()
    try:
        arrive_json(tmp_path / "in" / "1.json", [{"k": "a", "v": 1}])
        wait_until(lambda: engine.results("q").num_rows == 1)
        arrive_json(tmp_path / "t" / "t.json", [{"k": "a", "name": "two"}])
        wait_until(lambda: engine.metrics()["tables"]["t"]["version"] == 2)
        arrive_json(tmp_path / "in" / "2.json", [{"k": "a", "v": 2}])
        wait_until(lambda: engine.results("q").num_rows == 2)
        # A table that is declared while the engine runs.
        arrive_json(tmp_path / "u" / "u.json", [{"k": "a", "other": "x"}])
        engine.execute(f"CREATE TABLE u (k STRING, other STRING) USING json OPTIONS (path '{tmp_path}/u')")
        engine.query("q2", "SELECT v, other FROM s JOIN u ON s.k = u.k")
        arrive_json(tmp_path / "in" / "3.json", [{"k": "a", "v": 3}])
        wait_until(lambda: engine.results("q2").num_rows == 1)
    finally:
        engine.stop()
    assert [tuple(row.values()) for row in engine.results("q").to_pylist()] == [(1, "one"), (2, "two"), (3, "two")]
    # A restart reads the tables as they are then.
    arrive_json(tmp_path / "t" / "t.json", [{"k": "a", "name": "three"}])
    arrive_json(tmp_path / "in" / "4.json", [{"k": "a", "v": 4}])
    engine.run_once()
    assert engine.results("q").to_pylist()[-1] == {"v": 4, "name": "three"}
