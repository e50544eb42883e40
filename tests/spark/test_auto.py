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


CLASSES = ("critical", "report")


def test_each_class_has_decisions_of_its_own(spark: Any, tmp_path: Path) -> None:
    """Selected policies with their reasons, the scores of all candidates, and what was expected and measured."""
    engine = hg.Engine("auto:interval=50ms", spark=spark)
    engine.execute(
        f"""CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);
        CREATE STREAM s (v INT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE QUERY alarm CLASS critical AS SELECT v FROM s WHERE v % 7 = 0;
        CREATE QUERY evens CLASS critical AS SELECT v % 10 AS r, count(*) AS n FROM s WHERE v % 2 = 0 GROUP BY v % 10;
        CREATE QUERY total CLASS report AS SELECT v % 5 AS r, count(*) AS n FROM s WHERE v >= 0 GROUP BY v % 5;
        CREATE QUERY pairs CLASS report AS SELECT v % 3 AS r, v % 11 AS q, sum(v) AS t FROM s GROUP BY v % 3, v % 11"""
    )
    (tmp_path / "in").mkdir()

    def selections(cls: str) -> list[dict[str, Any]]:
        """The decisions of a class whose candidate was chosen by the scores of all, and has run for an interval."""
        own = [each for each in engine.decisions() if each["subject"] == cls]
        return [each for each in own if each["intervals"] and len(each["scores"]) == 4 and "score" in each["expected"]]

    engine.start()
    try:
        with arriving(tmp_path / "in", 300) as sent:
            wait_until(lambda: all(selections(cls) for cls in CLASSES))
        wait_until(lambda: sum(row["n"] for row in engine.results("total").to_pylist()) == len(sent))
    finally:
        engine.stop()
    for cls in CLASSES:
        own = [each for each in engine.decisions() if each["subject"] == cls]
        assert [each["number"] for each in own] == list(range(1, len(own) + 1)), "each once"
        assert [each["before"] for each in own[1:]] == [each["chosen"] for each in own[:-1]]
        assert {"hr", "fifo", "chain", "mtiq"} == {each["before"] for each in own} | {each["chosen"] for each in own}
        assert sum("has not run yet" in each["reason"] for each in own) == 3
        for each in own:
            assert (each["kind"], each["of"], each["chosen"] != each["before"]) == ("policy", cls, True)
            assert each["reason"]
        for each in selections(cls):
            assert "delay 100%" in each["reason"]
            chosen = next(score for name, score in each["scores"].items() if name.endswith(f":{each['chosen']}"))
            assert each["expected"]["score"] == chosen
            assert 0 <= each["came"]["reward"] <= 2


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
        # Several tasks read the files of a batch, so the newest row need not come last.
        wait_until(lambda: len(seen) >= sum(v % 20 == 0 for v in sent))
    finally:
        engine.stop()
    assert Counter(seen) == Counter(v for v in sent if v % 20 == 0)
