"""Rows that no query wants are dropped before the worker: the results are the same, and only what may go goes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark import prefilter
from headgate.spark.packing import Packing
from headgate.spark.prefilter import AGAIN, MANY, Prefilter
from tests.arriving import arrive_json

pytestmark = pytest.mark.spark

SELECTIONS = {
    "hot": "SELECT k, v FROM s WHERE v > 95",
    "low": "SELECT k, v FROM s WHERE v < 3 AND k IS NOT NULL",
    "nulls": "SELECT k FROM s WHERE v IS NULL",
    # It could raise, so the worker has to decide; the rest of the condition may still drop rows.
    "divided": "SELECT v FROM s WHERE v > 50 AND 10 / (v - 50) > 4",
}


def _engine(spark: Any, root: Path, queries: dict[str, str], options: str = "") -> hg.Engine:
    engine = hg.Engine("cqc", str(root / "ck"), spark=spark, dead_letters=str(root / "dead"))
    engine.execute(
        "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 1 HOUR)"
        f" USING json OPTIONS (path '{root}/in', maxFilesPerTrigger '1'{options});"
    )
    for name, select in queries.items():
        engine.query(name, select)
    return engine


def _write(root: Path, files: int = 4, rows: int = 100) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for number in range(files):
        mine = [
            {"ts": f"2024-03-01T10:00:{number:02d}Z", "k": None if n % 7 == 0 else f"k{n % 5}", "v": n or None}
            for n in range(rows)
        ]
        written += mine
        arrive_json(root / "in" / f"{number}.json", mine)
    return written


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets it pay from the first epoch with ten rows; gives how many rows reached the network in each epoch."""
    monkeypatch.setattr(prefilter, "MANY", 10)
    carried: list[int] = []
    report = Prefilter.report

    def count(self: Prefilter, selected: Mapping[str, tuple[int, int]]) -> bool:
        before = self._counted.get("s", (0, 0))[0]
        changed = report(self, selected)
        if rows := self._counted.get("s", (0, 0))[0] - before:
            carried.append(rows)
        return changed

    monkeypatch.setattr(Prefilter, "report", count)
    return carried


def test_results_are_the_same_and_fewer_rows_are_carried(spark: Any, tmp_path: Path, eager: list[int]) -> None:
    rows = _write(tmp_path)
    engine = _engine(spark, tmp_path, SELECTIONS)
    engine.run_once()
    found = {name: Counter(tuple(r.values()) for r in engine.results(name).to_pylist()) for name in SELECTIONS}
    frame = spark.createDataFrame(rows, "ts STRING, k STRING, v INT")
    frame.createOrReplaceTempView("s")
    for name, select in SELECTIONS.items():
        assert found[name] == Counter(tuple(r) for r in spark.sql(select).collect()), name
    assert sum(eager) == 100 + 3 * (4 + 2 + 1 + 49 - 4)


def test_a_filter_that_raises_is_given_up(
    spark: Any, tmp_path: Path, eager: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No condition is known that raises in Spark and not in the worker; here one does."""
    made = prefilter.condition

    def raising(frame: Any, packing: Any, queries: Any, streams: Any) -> str | None:
        return f"({made(frame, packing, queries, streams)}) AND assert_true(stream > 0) IS NULL"

    monkeypatch.setattr(prefilter, "condition", raising)
    rows = _write(tmp_path)
    engine = _engine(spark, tmp_path, SELECTIONS)
    engine.run_once()
    assert {each["state"] for each in engine.metrics()["queries"].values()} == {"stopped"}
    assert engine.results("hot").num_rows == sum(1 for row in rows if (row["v"] or 0) > 95)


def test_a_regular_expression_is_not_evaluated_by_java(spark: Any, tmp_path: Path) -> None:
    """Java's backtracks: (a+)+b takes for ever on a long row of a; the worker's does not."""
    engine = _engine(spark, tmp_path, {"slow": "SELECT v FROM s WHERE k RLIKE '(a+)+b' AND v > 3"})
    packing = Packing(
        {"s": [(f.name, f.type, f"`{f.name}`") for f in engine.queries["slow"].plan.inputs[0].schema.fields]}
    )
    frame = spark.createDataFrame([], "ts TIMESTAMP, k STRING, v INT").selectExpr(*packing.select("s"))
    found = prefilter.condition(frame, packing, tuple(engine.queries.values()), frozenset({"s"}))
    assert found == "(stream = 0 AND (((`t0_0` > 3))))"


def test_malformed_rows_still_go_to_the_dead_letters(spark: Any, tmp_path: Path, eager: list[int]) -> None:
    _write(tmp_path)
    (tmp_path / "in" / "9.json").write_text("no json\n" + json.dumps({"ts": None, "k": "a", "v": 1}) + "\n")
    engine = _engine(spark, tmp_path, {"hot": SELECTIONS["hot"]})
    engine.run_once()
    dead = [json.loads(line) for file in (tmp_path / "dead").rglob("*.json") for line in file.read_text().splitlines()]
    assert [row["row"] for row in dead] == ["no json"]
    assert sum(eager) == 100 + 3 * 4, "the malformed row is carried, and never reaches the network"


def test_rows_that_move_event_time_are_kept(spark: Any, tmp_path: Path, eager: list[int]) -> None:
    _write(tmp_path)
    counted = "SELECT window(ts, '1 second') AS w, count(*) AS n FROM s WHERE v > 97 GROUP BY window(ts, '1 second')"
    engine = _engine(spark, tmp_path, {"hot": SELECTIONS["hot"], "counted": counted})
    engine.run_once()
    assert sum(eager) == 400
    assert [row["n"] for row in engine.results("counted").to_pylist()] == [2] * 4


def test_it_is_tried_again_now_and_then() -> None:
    now = 100.0
    found = Prefilter(lambda: now)
    assert not found.report({"s": (MANY - 1, 0)})
    assert not found.report({"s": (3 * MANY - 1, MANY)}), "half of the rows are kept"
    assert found.report({"s": (4 * MANY, MANY + 1)})
    assert found._pays == {"s": now + AGAIN}
    assert not found.report({"s": (4 * MANY, MANY + 1)})
    now += AGAIN
    assert found.report({"s": (4 * MANY, MANY + 1)})
    assert not found._pays
