"""Iceberg tables as sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.connectors.iceberg_table import IcebergTable
from headgate.spark.results import SinkError
from tests.connectors.publishing import outboxed
from tests.table_formats.lake import Lake, rows_of
from tests.table_formats.sink import UPDATING, SinkTests

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestIcebergSink(SinkTests):
    """What holds for every format."""

    # Iceberg has no integers of 8 and 16 bits.
    same_types = False


def test_a_snapshot_names_its_epoch(lake: Lake, tmp_path: Path) -> None:
    options = lake.place(tmp_path, "path", "named")
    query = lake.totals(options)
    for epoch in (3, 4):
        writer = lake.open(query)
        writer.publish(outboxed(tmp_path / "ck", query, epoch, rows_of(query, ("a", epoch, "a", False))))
    table = IcebergTable.of(lake.spark, options)
    assert table.last_epoch("headgate-run1-q") == 4
    assert table.last_epoch("headgate-run2-q") == -1
    snapshot = table.newest().currentSnapshot()
    assert (snapshot.operation(), snapshot.summary().get("headgate.epoch")) == ("overwrite", "4")
    lake.sql("INSERT INTO {} VALUES ('b', 1)", options)
    assert table.newest().currentSnapshot().summary().get("headgate.epoch") is None, "the session is the user's"
    assert table.last_epoch("headgate-run1-q") == 4


def test_properties_and_partitions_of_a_new_table(lake: Lake, tmp_path: Path) -> None:
    options = lake.place(tmp_path, "path", "made")
    given = {**options, "key": "k", "partitionBy": "bucket(4, k)", "write.merge.mode": "merge-on-read"}
    query = lake.totals({**given, "format-version": "2"})
    for epoch in (0, 1):
        rows = rows_of(query, ("a", epoch, "a", False), ("b", 1, "b", epoch == 1))
        lake.open(query).publish(outboxed(tmp_path / "ck", query, epoch, rows))
    table = IcebergTable.of(lake.spark, options).newest()
    assert table.properties().get("write.merge.mode") == "merge-on-read"
    assert table.properties().get("write.metadata.delete-after-commit.enabled") == "true"
    assert table.spec().fields().get(0).toString().endswith("bucket[4](1)")
    assert dict(lake.rows(options)) == {("a", 1): 1}


def test_what_a_table_is_refused_for(lake: Lake, tmp_path: Path) -> None:
    def refused(**options: str) -> str:
        with pytest.raises(SinkError) as error:
            lake.open(lake.query({**options, "key": "k"}, UPDATING))
        assert "\n" not in str(error.value)
        return str(error.value)

    for table in ("no_such_table", "no_such_catalog.db.t"):
        said = refused(table=table)
        assert said.startswith(
            f"query q: sink iceberg: table {table}: it is in no Iceberg catalog: give a path, or set"
        )
    said = refused(path=str(tmp_path / "t"), **{"write.password": "hunter22", "format-version": "99"})
    assert "hunter22" not in said
    with pytest.raises(hg.SqlError, match="no_such_option"):
        lake.query({"path": "/x", "no_such_option": "1"}, UPDATING)
