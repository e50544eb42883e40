"""What every sink without a server holds when an engine dies between publishing an epoch and recording that it did."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors.registry import sinks
from headgate.connectors.spark_format import SparkFormatSink
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.results import SinkError
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.spark

FOLDERS = ("csv", "json", "orc", "parquet", "text")
OTHERS = ("callback", "console", "memory", "noop", "table", "xml")
"""`xml` stands for the formats that have no class here."""
ONCE = Counter(["a", "b", "c"])
AGAIN = Counter(["a", "b", "c", "c"])
"""Epoch 1, which brings c, is published twice."""
TABLE = "headgate_restarts"
called: list[str] = []


def note(rows: pa.Table) -> None:
    called.extend(rows.column("k").to_pylist())


def test_what_sinks_hold_after_a_crash(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    called.clear()
    (tmp_path / "in").mkdir()
    try:
        _file(tmp_path, 0, "a", "b")
        first = _engine(spark, tmp_path)
        first.start()
        try:
            wait_until(lambda: first.metrics()["queries"]["q_xml"]["published"] == 2)
        finally:
            first.stop()
        recorded = Checkpoint.publish

        def die(self: Checkpoint, epoch: int) -> None:
            if "c" in called:
                raise ValueError("the power is cut")
            recorded(self, epoch)

        monkeypatch.setattr(Checkpoint, "publish", die)
        _file(tmp_path, 1, "c")
        second = _engine(spark, tmp_path)
        second.start()
        try:
            with pytest.raises(SinkError, match="the power is cut"):
                second.wait(LIMIT)
        finally:
            second.stop()
        monkeypatch.setattr(Checkpoint, "publish", recorded)
        last = _engine(spark, tmp_path)
        last.run_once()
        found = {name: _rows(spark, tmp_path, name) for name in (*FOLDERS, "table", "xml")}
        found |= {"callback": Counter(called), "console": _printed(capsys.readouterr().out)}
        assert found == {name: ONCE if _exactly(name) else AGAIN for name in found}
        # A new process starts empty, and shows the epoch that it publishes again.
        assert last.results("q_memory").column("k").to_pylist() == ["c"]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {TABLE}")


def test_no_sink_is_forgotten() -> None:
    served = {"kafka", "postgresql", "delta", "iceberg"}
    assert set(sinks()) - served == {*FOLDERS, *OTHERS} - {"xml"}


def _exactly(name: str) -> bool:
    if name == "xml":
        assert "exactly once in a folder" in SparkFormatSink.guarantee.means
        return True
    return sinks()[name].guarantee.exactly_once


def _engine(spark: Any, root: Path) -> hg.Engine:
    engine = hg.Engine(checkpoint=str(root / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k STRING) USING json OPTIONS (path '{root / 'in'}')")
    options = {name: f"(path '{root / name}')" for name in FOLDERS} | {
        "callback": "(function 'tests.connectors.test_restarts:note')",
        "table": f"(table '{TABLE}')",
        "xml": f"(path '{root / 'xml'}', rowTag 'row')",
    }
    for name in (*FOLDERS, *OTHERS):
        given = f"OPTIONS {options[name]}" if name in options else ""
        engine.execute(f"CREATE QUERY q_{name} INTO {name} {given} AS SELECT k FROM s")
    return engine


def _file(root: Path, number: int, *keys: str) -> None:
    (root / "in" / f"{number}.json").write_text("".join(json.dumps({"k": key}) + "\n" for key in keys))


def _rows(spark: Any, root: Path, name: str) -> Counter[str]:
    if name == "table":
        frame = spark.table(TABLE)
    else:
        reader = spark.read.format(name).schema("value STRING" if name == "text" else "k STRING")
        frame = (reader.option("rowTag", "row") if name == "xml" else reader).load(str(root / name))
    return Counter(row[0] for row in frame.collect())


def _printed(out: str) -> Counter[str]:
    return Counter(line.partition("k=")[2] for line in out.splitlines() if line.startswith("q_console: "))
