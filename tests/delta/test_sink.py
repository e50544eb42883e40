"""Delta tables as sinks: appended rows, changes by MERGE, repeated epochs, what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors.registry import connectors, open_sink
from headgate.graph.queries import Query
from headgate.spark.results import ExecutorWriter, SinkError, Writer
from headgate.sql import Catalog
from tests.arriving import arrive_json
from tests.connectors.declared import clause, query_into
from tests.connectors.publishing import outboxed
from tests.connectors.test_sinks import TYPED
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _rows(spark: Any, options: dict[str, str], *columns: str) -> Counter[tuple[Any, ...]]:
    reader = spark.read.format("delta")
    frame = reader.table(options["table"]) if "table" in options else reader.load(options["path"])
    return Counter(tuple(row) for row in (frame.select(*columns) if columns else frame).collect())


def _place(tmp_path: Path, by: str, name: str) -> dict[str, str]:
    return {"path": str(tmp_path / name)} if by == "path" else {"table": f"{name}_{tmp_path.name.replace('-', '_')}"}


def _open(spark: Any, query: Query, run: str = "run1") -> ExecutorWriter:
    writer: Writer = open_sink(spark, query, query.sinks[0], run)
    assert isinstance(writer, ExecutorWriter)
    return writer


def _table(query: Query, *rows: tuple[Any, ...]) -> pa.Table:
    schema = query.plan.schema.arrow()
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)


def _totals(options: dict[str, str], key: str = "k") -> Query:
    into = clause({**options, "key": key})
    return _query(f"INTO delta {into} AS SELECT k, sum(v) AS total FROM s GROUP BY k")


def _query(rest: str) -> Query:
    """A query over `s (k STRING, v INT)`."""
    catalog = Catalog(connectors=connectors())
    catalog.execute(f"CREATE STREAM s (k STRING, v INT) USING rate; CREATE QUERY q {rest}")
    return catalog.queries["q"]


@pytest.mark.parametrize("by", ["path", "table"])
def test_an_appended_epoch_is_applied_once(delta: Any, tmp_path: Path, by: str) -> None:
    options = _place(tmp_path, by, "rows")
    query = _query(f"INTO delta {clause({**options, 'partitionBy': 'k'})} AS SELECT k, v FROM s")
    epochs = [[("a", 1), (None, 2)], [("b", 3)], [("a", 1)]]
    for epoch in (0, 0, 1, 2, 1, 2):
        # Each time as after a restart.
        rows = _table(query, *epochs[epoch])
        _open(delta, query).publish(outboxed(tmp_path / "ck", query, epoch, rows))
    assert _rows(delta, options, "k", "v") == Counter(row for rows in epochs for row in rows)
    other = _open(delta, query, "run2")
    other.publish(outboxed(tmp_path / "ck2", query, 0, _table(query, ("c", 1))))
    assert _rows(delta, options, "k", "v")["c", 1] == 1


@pytest.mark.parametrize("by", ["path", "table"])
def test_changes_are_merged_once(delta: Any, tmp_path: Path, by: str) -> None:
    options = _place(tmp_path, by, "totals")
    query = _totals(options)
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
        parts = [_table(query, *rows) for rows in (epochs[epoch][:half], epochs[epoch][half:]) if rows]
        _open(delta, query).publish(outboxed(tmp_path / "ck", query, epoch, *parts))
        assert dict(_rows(delta, options)) == dict.fromkeys(wanted[newest].items(), 1)
    # The session of the user is not touched.
    assert delta.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_an_epoch_without_effect_is_not_repeated_over_later_ones(delta: Any, tmp_path: Path) -> None:
    options = _place(tmp_path, "path", "totals")
    query = _totals(options)
    writer = _open(delta, query)
    nothing = outboxed(tmp_path / "ck", query, 0, _table(query, ("a", 1, "a", True)))
    writer.publish(nothing)
    writer.publish(outboxed(tmp_path / "ck", query, 1, _table(query, ("a", 1, "a", False))))
    writer.publish(nothing)
    assert dict(_rows(delta, options)) == {("a", 1): 1}


def test_appended_rows_with_a_key_replace_earlier_ones(delta: Any, tmp_path: Path) -> None:
    options = _place(tmp_path, "path", "newest")
    query = _query(f"INTO delta {clause({**options, 'key': 'K', 'partitionBy': 'k'})} AS SELECT k, v FROM s")
    writer = _open(delta, query)
    for epoch, rows in enumerate(([("a", 1), (None, 2), ("a", 3)], [(None, 4), ("b", 5)])):
        writer.publish(outboxed(tmp_path / "ck", query, epoch, _table(query, *rows)))
    assert _rows(delta, options, "k", "v") == Counter([("a", 3), (None, 4), ("b", 5)])


def test_every_type(delta: Any, tmp_path: Path) -> None:
    whole = delta.createDataFrame(TYPED)
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in whole.schema.fields)
    for key in ({}, {"key": "flag,word"}):
        options = _place(tmp_path, "path", f"typed{len(key)}")
        query = query_into("delta", clause({**options, **key}), columns=ddl)
        writer = _open(delta, query)
        for epoch in (0, 1, 1):
            writer.publish(outboxed(tmp_path / "ck", query, epoch, TYPED.slice(epoch * 2, 2)))
        found = delta.read.format("delta").load(options["path"])
        assert found.schema == whole.schema
        assert Counter(map(repr, found.collect())) == Counter(map(repr, whole.collect()))


def test_columns_that_are_new(delta: Any, tmp_path: Path) -> None:
    options = _place(tmp_path, "path", "widened")
    _open(delta, _query(f"INTO delta {clause({**options, 'key': 'k'})} AS SELECT k, v FROM s"))
    wide = "AS SELECT k, v, v + 1 AS w FROM s"
    with pytest.raises(SinkError, match=r"^query q: sink delta: table .*widened: it has no column w; it has k, v$"):
        _open(delta, _query(f"INTO delta {clause({**options, 'key': 'k'})} {wide}"))
    query = _query(f"INTO delta {clause({**options, 'key': 'k', 'mergeSchema': 'true'})} {wide}")
    _open(delta, query).publish(outboxed(tmp_path / "ck", query, 0, _table(query, ("a", 1, 2))))
    assert _rows(delta, options, "k", "v", "w") == Counter([("a", 1, 2)])


def test_an_engine_follows_totals(delta: Any, tmp_path: Path) -> None:
    """Groups appear, change and, by HAVING, vanish; the answer is Spark's of all rows."""
    (tmp_path / "in").mkdir()
    totals = "SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k HAVING sum(v) % 3 <> 0"
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=delta)
    table = _place(tmp_path, "table", "followed")["table"]
    engine.execute(
        f"""CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE QUERY totals INTO delta OPTIONS (table '{table}', key 'k') AS {totals};
        CREATE QUERY rows INTO delta OPTIONS (path '{tmp_path}/rows') AS SELECT k, v FROM s"""
    )
    engine.start()
    try:
        for number in range(4):
            before = engine.metrics()["queries"]["rows"]["published"]
            keys = [None, "a", "b", "c"]
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": k, "v": v + number} for v, k in enumerate(keys)])
            wait_until(lambda last=before: engine.metrics()["queries"]["rows"]["published"] > last)  # type: ignore[misc]
    finally:
        engine.stop()
    delta.read.schema("k STRING, v INT").json(f"{tmp_path}/in").createOrReplaceTempView("s")
    assert _rows(delta, {"table": table}) == Counter(tuple(row) for row in delta.sql(totals).collect())
    assert _rows(delta, {"path": f"{tmp_path}/rows"}) == Counter(tuple(row) for row in delta.table("s").collect())


def test_what_is_refused(delta: Any, tmp_path: Path) -> None:
    updating = "AS SELECT k, count(*) AS n FROM s GROUP BY k"
    path = f"path '{tmp_path}/t'"
    with pytest.raises(SinkError, match=r"^query q: sink delta: the query replaces rows, and the option key is"):
        _open(delta, _query(f"INTO delta OPTIONS ({path}) {updating}"))
    with pytest.raises(hg.SqlError, match="key names x, which is no column of the query; it has k, n"):
        _query(f"INTO delta OPTIONS ({path}, key 'x') {updating}")
    with pytest.raises(hg.SqlError, match="give either path or table"):
        _query(f"INTO delta OPTIONS ({path}, table 't', key 'k') {updating}")
    delta.sql("CREATE TABLE not_delta (k STRING, n BIGINT) USING parquet")
    with pytest.raises(SinkError, match=r"^query q: sink delta: table not_delta: it is no Delta table$") as refused:
        _open(delta, _query(f"INTO delta OPTIONS (table 'not_delta', key 'k') {updating}"))
    assert "\n" not in str(refused.value)
