"""Iceberg tables as streams and as static tables that change."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.connectors.iceberg_table import IcebergTable
from headgate.connectors.registry import open_table
from tests.connectors.declared import clause
from tests.table_formats.lake import Lake
from tests.table_formats.source import SourceTests

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestIcebergSource(SourceTests):
    """What holds for every format."""

    skips_changes = "streaming-skip-overwrite-snapshots"


def test_options_of_a_stream(lake: Lake, tmp_path: Path) -> None:
    options = lake.place(tmp_path, "path", "limited")
    lake.create("k STRING", options)
    for k in "ab":
        lake.sql(f"INSERT INTO {{}} VALUES ('{k}')", options)
    lake.sql("UPDATE {} SET k = 'changed' WHERE k = 'a'", options)
    lake.sql("INSERT INTO {} VALUES ('c')", options)
    given = {
        **options,
        "streaming-max-files-per-micro-batch": "1",
        "streaming-max-rows-per-micro-batch": "1",
        "streaming-skip-overwrite-snapshots": "true",
        "streaming-skip-delete-snapshots": "true",
        "stream-from-timestamp": "1",
    }
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
    engine.execute(f"CREATE STREAM s (k STRING) USING iceberg {clause(given)}; CREATE QUERY q AS SELECT k FROM s")
    engine.run_once()
    assert sorted(engine.results("q").column("k").to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize("by", ["path", "table"])
def test_a_static_table_as_it_was(lake: Lake, tmp_path: Path, by: str) -> None:
    options = lake.place(tmp_path, by, "history")
    lake.create("k STRING", options)
    lake.sql("INSERT INTO {} VALUES ('a')", options)
    first = IcebergTable.of(lake.spark, options).newest().currentSnapshot()
    lake.sql("ALTER TABLE {} CREATE TAG before", options)
    lake.sql("INSERT INTO {} VALUES ('b')", options)
    at = lake.spark.sql(f"SELECT timestamp_millis({first.timestampMillis()})").first()[0]
    tests = TestIcebergSource()
    for version in (
        {"versionAsOf": str(first.snapshotId())},
        {"versionAsOf": "before"},
        {"timestampAsOf": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"},
    ):
        frame = open_table(lake.spark, tests.declared(lake, {**options, **version}))
        assert [tuple(row) for row in frame.collect()] == [("a",)]
    with pytest.raises(hg.SqlError, match="give either versionAsOf or timestampAsOf"):
        hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark).execute(
            f"CREATE TABLE t (k STRING) USING iceberg {clause({**options, 'versionAsOf': '1', 'timestampAsOf': '2'})}"
        )
