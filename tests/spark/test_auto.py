"""Policy `auto` on Spark: plans change while rows flow, and no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json, sending
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

COUNTS = "SELECT window(ts, '2 seconds') AS w, k, count(*) AS n FROM s {where} GROUP BY window(ts, '2 seconds'), k"


def test_a_query_begins_with_the_aggregate_that_another_runs_and_has_sparks_answer(spark: Any, tmp_path: Path) -> None:
    rows = [{"ts": f"2026-01-01 00:00:{n % 40:02d}", "k": "xyz"[n % 3], "a": n} for n in range(300)]
    arrive_json(tmp_path / "in" / "0.json", rows)
    where = "WHERE k = 'x'"
    engine = hg.Engine("auto", spark=spark)
    engine.execute(
        f"""CREATE STREAM s (ts TIMESTAMP, k STRING, a INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
        USING json OPTIONS (path '{tmp_path}/in');
        CREATE QUERY wide AS {COUNTS.format(where="")};
        CREATE QUERY narrow AS {COUNTS.format(where=where)}"""
    )
    engine.run_once()
    (made,) = [each for each in engine.decisions() if each["kind"] == "plan"]
    assert (made["subject"], made["chosen"]) == ("narrow", "shared with wide")
    spark.read.schema("ts TIMESTAMP, k STRING, a INT").json(f"{tmp_path}/in").createOrReplaceTempView("s")
    for query, condition in (("wide", ""), ("narrow", where)):
        expected = Counter((row.w.start, row.k, row.n) for row in spark.sql(COUNTS.format(where=condition)).collect())
        found = engine.results(query).to_pylist()
        assert Counter((row["w"]["start"].replace(tzinfo=None), row["k"], row["n"]) for row in found) == expected


@contextmanager
def arriving(folder: Path, rows: int) -> Iterator[list[int]]:
    """Files with `rows` rows each, ten a second, until the end of the block; gives the numbers of all rows so far."""
    sent: list[int] = []

    def send() -> None:
        values = range(len(sent), len(sent) + rows)
        arrive_json(folder / f"{len(sent)}.json", [{"v": value} for value in values])
        sent.extend(values)

    with sending(send):
        yield sent


@pytest.mark.slow
def test_a_cheaper_plan_is_taken_when_a_spec_is_missed(spark: Any, tmp_path: Path) -> None:
    """As written, the function that waits 5 ms a row sees all rows; first, the other one leaves it one row in 20."""
    seen: list[int] = []
    engine = hg.Engine("auto", spark=spark, budget=0.2)
    engine.execute(
        f"""CREATE STREAM s (v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE FUNCTION slowly(v INT) RETURNS INT AS 'tests.spark.functions:slowly';
        CREATE FUNCTION rarely(v INT) RETURNS INT AS 'tests.spark.functions:rarely';"""
    )
    (tmp_path / "in").mkdir()
    engine.query(
        "q",
        "SELECT v FROM s WHERE slowly(v) = 0 AND rarely(v) = 0",
        sink=hg.callback(lambda table: seen.extend(table.column("v").to_pylist())),
        spec={"latency": "2 seconds"},
    )
    engine.start()
    try:
        with arriving(tmp_path / "in", 40) as sent:
            wait_until(lambda: (engine.metrics()["queries"]["q"]["plan"] or {}).get("running") == "rarely first")
            chosen = [each for each in engine.decisions() if each["kind"] == "plan" and each["subject"] == "q"]
            assert chosen[-1]["chosen"] == "rarely first"
        wait_until(lambda: max(seen, default=-1) == max(v for v in sent if v % 20 == 0))
    finally:
        engine.stop()
    assert Counter(seen) == Counter(v for v in sent if v % 20 == 0)
