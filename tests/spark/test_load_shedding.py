"""Load shedding on Spark: which queries lose rows, how many, what the metrics and the results say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.control import tuning
from headgate.control.optimizer import Optimizer
from headgate.control.setting import Setting
from tests.arriving import arrive_json, sending
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE CLASS report WITH (priority = 1);
CREATE STREAM s (v INT, w INT) USING json OPTIONS (path '{root}/in');
CREATE FUNCTION slowly(v INT) RETURNS INT AS 'tests.spark.functions:slowly';
CREATE QUERY alarm CLASS critical AS SELECT v FROM s WHERE v >= 0;
CREATE QUERY whole CLASS report AS SELECT v, w FROM s WHERE w = 3;
CREATE QUERY sampled CLASS report WITH (accuracy = '40%'{latency}) AS SELECT v FROM s WHERE {condition};
CREATE QUERY counted CLASS report WITH (accuracy = '50%', scaled = true) AS SELECT count(*) AS n, sum(w) AS t FROM s;
"""
ACCURACY = {"sampled": 0.4, "counted": 0.5}


class Shed:
    """An engine with policy `auto`, the rows that it was sent, and all figures that its queries have reported."""

    def __init__(self, spark: Any, root: Path, replicas: int = 1, **given: str) -> None:
        (root / "in").mkdir()
        self.root, self.sent = root, 0
        self.engine = hg.Engine("auto", spark=spark, replicas=replicas, results=100_000, budget=0.2)
        self.engine.execute(SCRIPT.format(root=root, **{"latency": "", "condition": "v + w >= 3", **given}))

    def send(self, rows: int) -> None:
        """Rows that arrive in one file."""
        values = range(self.sent, self.sent + rows)
        arrive_json(self.root / "in" / f"{self.sent}.json", [{"v": value, "w": 3} for value in values])
        self.sent += rows

    def values(self, query: str) -> list[int]:
        found: list[int] = sorted(self.engine.results(query).column("v").to_pylist())
        return found

    @property
    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.metrics()["queries"]
        return found

    def totals(self) -> dict[str, int]:
        """The newest row of the scaled aggregate."""
        rows = self.engine.results("counted").to_pylist()
        return rows[-1] if rows else {}

    def settled(self) -> bool:
        """Whether all rows are answered or shed. Metrics follow the results by half a second."""
        figures = self.figures
        answered = (len(self.values(name)) + figures[name].get("shed", 0) for name in ("alarm", "whole", "sampled"))
        return set(answered) == {self.sent} and self.totals().get("n", 0) == self.sent

    def check_accuracy(self) -> None:
        """No query loses more than its accuracy allows, in all and over the last seconds; some lose nothing."""
        for name, figures in self.figures.items():
            most = 1 - ACCURACY.get(name, 1.0)
            assert figures.get("shed", 0) <= most * figures.get("offered", 0) + 1e-9, name
            assert figures["shed_share"] <= most + 1e-9, name
            accuracy = (figures["spec"] or {}).get("accuracy")
            assert accuracy is None or accuracy["met"], name

    def check_whole(self) -> None:
        """Queries without `accuracy` have every row once."""
        for name in ("alarm", "whole"):
            assert self.values(name) == list(range(self.sent))
            assert (self.figures[name]["shed"], self.figures[name]["shed_share"]) == (0, 0.0)
            assert b"shed" not in (self.engine.results(name).schema.metadata or {})


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_sheds_what_accuracy_allows_and_nothing_else(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    """The optimizer hands over a setting that sheds every query, one of them more than its accuracy allows."""
    chosen = Setting()

    def tick(optimizer: Optimizer, seen: Any) -> Setting:
        optimizer.setting = chosen
        return chosen

    monkeypatch.setattr(Optimizer, "tick", tick)
    monkeypatch.setattr(tuning, "EVERY", 0.02)
    shed = Shed(spark, tmp_path, replicas)
    engine = shed.engine

    def planned() -> dict[str, float]:
        """What the running plan sheds."""
        return {query.name: query.shed for query in engine._run.epochs.plan.queries}  # type: ignore[union-attr]

    engine.start()
    try:
        shed.send(100)
        wait_until(shed.settled)
        assert shed.figures["sampled"]["shed"] == 0
        chosen = Setting(shed={"alarm": 0.5, "whole": 0.5, "sampled": 0.9, "counted": 0.5})
        wait_until(lambda: planned() == {"alarm": 0.5, "whole": 0.5, "sampled": 0.9, "counted": 0.5})
        for _ in range(2):
            shed.send(501)
            wait_until(shed.settled)
            shed.check_accuracy()
        figures = shed.figures
        # Each replica carries the fraction of a row that is left over.
        assert figures["sampled"]["offered"] == figures["counted"]["offered"] == 1002
        assert 1002 * 0.6 - replicas < figures["sampled"]["shed"] <= 1002 * 0.6
        assert 1002 * 0.5 - replicas < figures["counted"]["shed"] <= 1002 * 0.5
        assert figures["sampled"]["shed_share"] == pytest.approx(0.6, abs=0.01)
        assert len(set(shed.values("sampled"))) == 1102 - figures["sampled"]["shed"]
        assert engine.results("sampled").schema.metadata[b"shed"] == b"%.4f" % figures["sampled"]["shed_share"]
        assert figures["sampled"]["spec"]["accuracy"]["measured"] == pytest.approx(0.4, abs=0.01)
        assert shed.totals() == {"n": 1102, "t": 3306}
        shed.check_whole()
        chosen = Setting()
        wait_until(lambda: not any(planned().values()))
        shed.send(100)
        wait_until(shed.settled)
        assert shed.values("sampled")[-100:] == list(range(1102, 1202))
        assert shed.figures["sampled"]["shed"] == figures["sampled"]["shed"]
        assert shed.totals() == {"n": 1202, "t": 3606}
        shed.check_whole()
    finally:
        engine.stop()


@pytest.mark.slow
def test_an_overload_makes_the_optimizer_shed(spark: Any, tmp_path: Path) -> None:
    """The function waits 5 ms a row, for 300 rows a second: one and a half times what an operator can take. No other
    step is predicted to suffice, so rows of class report are shed; every other query has every row."""
    shed = Shed(spark, tmp_path, latency=", latency = '3 seconds'", condition="slowly(v) = 0")
    engine = shed.engine
    engine.start()
    try:
        with sending(lambda: shed.send(30)):
            wait_until(lambda: any(each["kind"] == "shedding" for each in engine.decisions()))

            shares: list[float] = []

            def rows_are_shed() -> bool:
                shed.check_accuracy()
                metadata = engine.results("sampled").schema.metadata or {}
                shares.append(float(metadata.get(b"shed", 0)))
                return shares[-1] > 0

            wait_until(rows_are_shed)
            assert shares[-1] <= 0.6
        wait_until(shed.settled)
        shed.check_accuracy()
        shed.check_whole()
        figures = shed.figures["sampled"]
        assert 0 < figures["shed"] <= 0.6 * figures["offered"]
        assert len(set(shed.values("sampled"))) == shed.sent - figures["shed"]
        assert shed.totals() == {"n": shed.sent, "t": 3 * shed.sent}
        taken = [each for each in engine.decisions() if each["kind"] == "shedding"]
        assert taken[0]["subject"] == "report"
        assert "sampled is at" in taken[0]["reason"]
        assert "sampled" in taken[0]["expected"]
    finally:
        engine.stop()
