"""The oracle's cases on Spark with several replicas: the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json
from tests.spark.test_oracle_on_spark import GROUPS, run_cases
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

QUICK = [
    min((name for name in GROUPS if name.startswith(kind)), key=lambda name: len(GROUPS[name]))
    for kind in ("joins", "windows")
]


@pytest.mark.parametrize("name", QUICK)
def test_cases_on_two_replicas(spark: Any, tmp_path: Path, name: str) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc", replicas=2)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", GROUPS)
def test_all_cases_on_replicas(spark: Any, tmp_path: Path, name: str, replicas: int) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc", replicas=replicas)


def test_every_replica_learns_and_the_driver_brings_it_together(spark: Any, tmp_path: Path) -> None:
    """Each replica has a scheduler of its own: their decisions, and the seconds of each class."""
    (tmp_path / "in").mkdir()
    engine = hg.Engine("amos(interval=50ms)", spark=spark, replicas=2)
    engine.execute(
        f"CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);"
        f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in', maxFilesPerTrigger '1');"
        "CREATE QUERY sums CLASS critical AS SELECT k, count(*) AS n FROM s GROUP BY k;"
        "CREATE QUERY pairs CLASS report AS SELECT k, v % 5 AS r, count(*) AS n FROM s GROUP BY k, v % 5"
    )
    engine.start()
    try:
        for number in range(200):
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": f"k{n % 50}", "v": n} for n in range(500)])
            seen = 500 * (number + 1)
            wait_until(lambda seen=seen: sum(row["n"] for row in engine.results("sums").to_pylist()) == seen)  # type: ignore[misc]
            if {each.get("replica") for each in engine.decisions()} >= {0, 1}:
                break
        assert {each["replica"] for each in engine.decisions()} == {0, 1}
        metrics = engine.metrics()
        classes = metrics["classes"]
        assert classes["critical"]["share"] + classes["report"]["share"] == pytest.approx(1.0)
        for name in ("critical", "report"):
            parts = [replica["class_seconds"][name] for replica in metrics["replicas"]]
            assert min(parts) > 0
            assert classes[name]["seconds"] == pytest.approx(sum(parts))
    finally:
        engine.stop()


def test_failures_and_malformed_rows_with_two_replicas(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark, replicas=2)
    engine.execute(
        f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path}/in');"
        "CREATE FUNCTION picky(v INT) RETURNS INT AS 'tests.spark.functions:picky';"
    )
    engine.query("sums", "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k")
    engine.query("pairs", "SELECT k, v % 3 AS r, count(*) AS n FROM s GROUP BY k, v % 3")
    engine.query("whole", "SELECT count(*) AS n FROM s")
    engine.query("bad", "SELECT k, max(picky(v)) AS v FROM s GROUP BY k")
    rows = [{"k": f"k{n % 7}", "v": n} for n in range(100)]
    arrive_json(tmp_path / "in" / "0.json", [*rows, "no JSON at all", "{"])
    engine.start()
    try:
        placement = engine._run.epochs.plan.placement  # type: ignore[union-attr]
        assert placement is not None
        assert placement.replica_of("bad") is None, "the query is split, so that one replica alone has the bad row"
        wait_until(lambda: engine.results("whole").num_rows > 0)
        assert engine.metrics()["dead_letters"] == {"s": 2}
        arrive_json(tmp_path / "in" / "1.json", [{"k": "k1", "v": 1000}])
        wait_until(lambda: engine.metrics()["queries"]["bad"]["state"] == "failed")
        later = [{"k": f"k{n % 7}", "v": n} for n in range(100, 150)]
        arrive_json(tmp_path / "in" / "2.json", later)
        wait_until(lambda: engine.results("whole").to_pylist()[-1]["n"] == 151)
        # Every replica knows of the failure by now.
        wait_until(lambda: engine._run.epochs._elsewhere == ())  # type: ignore[union-attr]
        assert "one too many" in engine.metrics()["queries"]["bad"]["error"]
        every = [*rows, {"k": "k1", "v": 1000}, *later]
        wanted = {k: sum(int(row["v"]) for row in every if row["k"] == k) for k in {str(row["k"]) for row in every}}
        assert {row["k"]: row["s"] for row in engine.results("sums").to_pylist()} == wanted
        assert sum(row["n"] for row in engine.results("pairs").to_pylist()) == len(every)
        assert len(engine.metrics()["replicas"]) == 2
    finally:
        engine.stop()
    # A restart with the same checkpoint: the query stays failed, on all replicas.
    engine.start()
    try:
        assert engine.metrics()["queries"]["bad"]["state"] == "failed"
        arrive_json(tmp_path / "in" / "3.json", [{"k": "k1", "v": 1}])
        wait_until(lambda: engine.results("whole").to_pylist()[-1]["n"] == 152)
        assert engine.metrics()["queries"]["bad"]["state"] == "failed"
    finally:
        engine.stop()
