"""Tests of a sink whose tables have transactions: appended rows, changes by MERGE, repeated epochs, what is refused.

The tests of each format inherit them, so that they run in its own session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors.table_writer import FormatTableWriter
from headgate.spark.results import SinkError
from tests.arriving import arrive_json
from tests.connectors.declared import clause, query_into
from tests.connectors.publishing import outboxed
from tests.connectors.test_sinks import TYPED
from tests.table_formats.lake import Lake, rows_of
from tests.waiting import LIMIT, wait_until

UPDATING = "SELECT k, count(*) AS n FROM s GROUP BY k"


class SinkTests:
    """What holds for the sink of every format."""

    same_types = True
    """Whether the format has all of Spark's types."""

    @pytest.mark.parametrize("by", ["path", "table"])
    def test_an_appended_epoch_is_applied_once(self, lake: Lake, tmp_path: Path, by: str) -> None:
        options = lake.place(tmp_path, by, "rows")
        query = lake.query({**options, "partitionBy": "k"}, "SELECT k, v FROM s")
        epochs = [[("a", 1), (None, 2)], [("b", 3)], [("a", 1)]]
        for epoch in (0, 0, 1, 2, 1, 2):
            # Each time as after a restart.
            rows = rows_of(query, *epochs[epoch])
            lake.open(query).publish(outboxed(tmp_path / "ck", query, epoch, rows))
        assert lake.rows(options, "k", "v") == Counter(row for rows in epochs for row in rows)
        other = lake.open(query, "run2")
        other.publish(outboxed(tmp_path / "ck2", query, 0, rows_of(query, ("c", 1))))
        assert lake.rows(options, "k", "v")["c", 1] == 1

    @pytest.mark.parametrize("by", ["path", "table"])
    def test_changes_are_merged_once(self, lake: Lake, tmp_path: Path, by: str) -> None:
        options = lake.place(tmp_path, by, "totals")
        query = lake.totals(options)
        # Columns: k, total, the identity of the row, deleted.
        epochs = [
            [("a", 1, "a", False), (None, 2, None, False), ("gone", 9, "gone", False), ("a", 3, "a", False)],
            [("gone", 9, "gone", True), ("never", 9, "never", True), ("b", 1, "b", False), ("b", 2, "b", True)],
            [("gone", 5, "gone", False), (None, 7, None, True), ("x`y", 1, "x`y", False)],
            [("gone", 5, "gone", True)],
        ]
        wanted = [{"a": 3, None: 2, "gone": 9}, {"a": 3, None: 2}, {"a": 3, "gone": 5, "x`y": 1}, {"a": 3, "x`y": 1}]
        newest = -1
        for epoch in (0, 0, 1, 0, 1, 2, 1, 2, 3, 2, 3):
            newest = max(newest, epoch)
            half = len(epochs[epoch]) // 2
            # Two replicas.
            parts = [rows_of(query, *rows) for rows in (epochs[epoch][:half], epochs[epoch][half:]) if rows]
            lake.open(query).publish(outboxed(tmp_path / "ck", query, epoch, *parts))
            if epoch == 2:
                # Neither does maintenance lose the number of an epoch, nor rows of others.
                lake.maintain(options)
            assert dict(lake.rows(options)) == dict.fromkeys(wanted[newest].items(), 1)
        # The transactions of the user record no epoch.
        names = [name for name, _ in lake.spark.sql("SET").collect()]
        assert not [name for name in names if "txn" in name or "snapshot-property" in name]

    def test_an_epoch_without_effect_is_not_repeated_over_later_ones(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "totals")
        query = lake.totals(options)
        nothing = outboxed(tmp_path / "ck", query, 0, rows_of(query, ("a", 1, "a", True)))
        lake.open(query).publish(nothing)
        lake.open(query).publish(outboxed(tmp_path / "ck", query, 1, rows_of(query, ("a", 1, "a", False))))
        lake.open(query).publish(nothing)
        assert dict(lake.rows(options)) == {("a", 1): 1}

    @pytest.mark.parametrize("key", [{}, {"key": "k"}])
    def test_an_epoch_that_was_written_although_it_failed(
        self, lake: Lake, tmp_path: Path, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = lake.place(tmp_path, "path", "uncertain")
        query = lake.query({**options, **key}, "SELECT k, v FROM s")
        writer = lake.open(query)
        rows = outboxed(tmp_path / "ck", query, 0, rows_of(query, ("a", 1)))
        if isinstance(writer, FormatTableWriter):
            written = writer._write
            failures = iter([ValueError(lake.table_class.conflicts[0]), ValueError("no conflict")])

            def fails(rows: Any) -> None:
                written(rows)
                for failure in failures:
                    raise failure

            monkeypatch.setattr(writer, "_write", fails)
        for _ in range(2):
            with suppress(SinkError):
                writer.publish(rows)
        lake.open(query).publish(rows)
        assert lake.rows(options, "k", "v") == Counter([("a", 1)])

    def test_another_writer_at_the_same_time(self, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options = lake.place(tmp_path, "path", "shared")
        query = lake.query({**options, "key": "k"}, "SELECT k, v FROM s")
        writer = lake.open(query)
        assert isinstance(writer, FormatTableWriter)
        writer.publish(outboxed(tmp_path / "ck", query, 0, rows_of(query, ("a", 1), ("b", 1))))
        changes = writer._last_changes
        reading, go = tmp_path / "reading", tmp_path / "go"

        def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """In a task, after the MERGE has chosen its version of the table; one waits, so that a core is free."""
            with suppress(FileExistsError):
                reading.touch(exist_ok=False)
                wait_until(go.exists)
            yield from batches

        def slow(rows: Any) -> Any:
            frame = changes(rows)
            return frame.mapInArrow(waits, frame.schema)

        monkeypatch.setattr(writer, "_last_changes", slow)
        rows = outboxed(tmp_path / "ck", query, 1, rows_of(query, ("a", 2), ("c", 2)))
        with ThreadPoolExecutor() as thread:
            publishing = thread.submit(writer.publish, rows)
            wait_until(reading.exists)
            lake.sql("INSERT INTO {} VALUES ('other', 9)", options)
            lake.sql("UPDATE {} SET v = 7 WHERE k = 'b'", options)
            go.touch()
            publishing.result(LIMIT)
        lake.open(query).publish(rows)
        assert lake.rows(options) == Counter([("a", 2), ("b", 7), ("c", 2), ("other", 9)])

    def test_appended_rows_with_a_key_replace_earlier_ones(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "newest")
        query = lake.query({**options, "key": "K", "partitionBy": "k"}, "SELECT k, v FROM s")
        writer = lake.open(query)
        for epoch, rows in enumerate(([("a", 1), (None, 2), ("a", 3)], [(None, 4), ("b", 5)])):
            writer.publish(outboxed(tmp_path / "ck", query, epoch, rows_of(query, *rows)))
        assert lake.rows(options, "k", "v") == Counter([("a", 3), (None, 4), ("b", 5)])

    def test_every_type(self, lake: Lake, tmp_path: Path) -> None:
        whole = lake.spark.createDataFrame(TYPED)
        ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in whole.schema.fields)
        for key in ({}, {"key": "flag,word"}):
            options = lake.place(tmp_path, "path", f"typed{len(key)}")
            query = query_into(lake.format, clause({**options, **key}), columns=ddl)
            writer = lake.open(query)
            for epoch in (0, 1, 1):
                writer.publish(outboxed(tmp_path / "ck", query, epoch, TYPED.slice(epoch * 2, 2)))
            found = lake.spark.table(lake.named(options))
            if self.same_types:
                assert found.schema == whole.schema
            assert Counter(map(repr, found.collect())) == Counter(map(repr, whole.collect()))

    def test_columns_that_are_new(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "widened")
        lake.open(lake.query({**options, "key": "k"}, "SELECT k, v FROM s"))
        wide = "SELECT k, v, v + 1 AS w FROM s"
        message = rf"^query q: sink {lake.format}: table .*widened: it has no column w; it has k, v$"
        with pytest.raises(SinkError, match=message):
            lake.open(lake.query({**options, "key": "k"}, wide))
        query = lake.query({**options, "key": "k", "mergeSchema": "true"}, wide)
        lake.open(query).publish(outboxed(tmp_path / "ck", query, 0, rows_of(query, ("a", 1, 2))))
        assert lake.rows(options, "k", "v", "w") == Counter([("a", 1, 2)])
        # A column that the query does not have is null.
        narrow = lake.query({**options, "key": "k"}, "SELECT k, v FROM s")
        lake.open(narrow, "run2").publish(outboxed(tmp_path / "ck2", narrow, 0, rows_of(narrow, ("b", 1))))
        assert lake.rows(options, "k", "v", "w") == Counter([("a", 1, 2), ("b", 1, None)])

    def test_an_engine_follows_totals(self, lake: Lake, tmp_path: Path) -> None:
        """Groups appear, change and, by HAVING, vanish; the answer is Spark's of all rows."""
        (tmp_path / "in").mkdir()
        totals = "SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k HAVING sum(v) % 3 <> 0"
        table, rows = lake.place(tmp_path, "table", "followed"), lake.place(tmp_path, "path", "rows")
        script = f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
            CREATE QUERY totals {lake.into({**table, "key": "k"})} AS {totals};
            CREATE QUERY rows {lake.into(rows)} AS SELECT k, v FROM s"""
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
        engine.execute(script)
        engine.start()
        try:
            for number in range(4):
                before = engine.metrics()["queries"]["rows"]["published"]
                keys = [None, "a", "b", "c"]
                arrive_json(tmp_path / "in" / f"{number}.json", [{"k": k, "v": v + number} for v, k in enumerate(keys)])
                wait_until(lambda last=before: engine.metrics()["queries"]["rows"]["published"] > last)  # type: ignore[misc]
        finally:
            engine.stop()
        # What a stop leaves to the next start, since a first MERGE may take longer than a stop waits.
        engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=lake.spark)
        engine.execute(script)
        engine.run_once()
        lake.spark.read.schema("k STRING, v INT").json(f"{tmp_path}/in").createOrReplaceTempView("s")
        assert lake.rows(table) == Counter(tuple(row) for row in lake.spark.sql(totals).collect())
        assert lake.rows(rows) == Counter(tuple(row) for row in lake.spark.table("s").collect())

    def test_what_is_refused(self, lake: Lake, tmp_path: Path) -> None:
        place = lake.place(tmp_path, "path", "t")
        with pytest.raises(
            SinkError, match=rf"^query q: sink {lake.format}: the query replaces rows, and the option key"
        ):
            lake.open(lake.query(place, UPDATING))
        with pytest.raises(hg.SqlError, match="key names x, which is no column of the query; it has k, n"):
            lake.query({**place, "key": "x"}, UPDATING)
        with pytest.raises(hg.SqlError, match="give either path or table"):
            lake.query({**place, "table": "t", "key": "k"}, UPDATING)
        with pytest.raises(SinkError, match=rf"^query q: sink {lake.format}: key n does not identify the rows"):
            lake.open(lake.query({**place, "key": "n"}, UPDATING))
        lake.spark.sql("CREATE TABLE other_format (k STRING, n BIGINT) USING parquet")
        with pytest.raises(SinkError) as refused:
            lake.open(lake.query({"table": "other_format", "key": "k"}, UPDATING))
        none = f"it is no {lake.table_class.title} table"
        assert str(refused.value) == f"query q: sink {lake.format}: table other_format: {none}"
