"""The engine on Spark beside a function that does harm: its query fails, the others go on, and `stop` ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.processes import is_alive
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (v INT) USING json OPTIONS (path '{root}/in', maxFilesPerTrigger '1');
CREATE FUNCTION harm(v INT) RETURNS INT AS 'tests.crash.bad_functions:{harm}' WITH (timeout = '{timeout}');
CREATE QUERY good AS SELECT v FROM s;
CREATE QUERY total AS SELECT count(*) AS n FROM s;
CREATE QUERY bad AS SELECT harm(v) AS v FROM s;
"""


def arrive(root: Path, number: int, values: range) -> None:
    arrive_json(root / "in" / f"{number}.json", [{"v": value} for value in values])


@pytest.mark.parametrize(
    "harm",
    [
        *("hang", "leave", "crash"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("keep_files", "close_all", "kill_supervisor")),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("lower_limit", "sleep_in_c")),
    ],
)
def test_queries_go_on_beside_a_function_that_does_harm(spark: Any, tmp_path: Path, harm: str) -> None:
    arrive(tmp_path, 0, range(100))
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(SCRIPT.format(root=tmp_path, harm=harm, timeout="2 seconds"))
    engine.start()
    try:
        wait_until(lambda: engine.results("bad").num_rows == 100)
        arrive(tmp_path, 1, range(950, 1050))
        wait_until(lambda: engine.metrics()["queries"]["bad"]["state"] == "failed")
        arrive(tmp_path, 2, range(100, 200))
        wait_until(lambda: engine.results("good").num_rows == 300)
        wait_until(lambda: engine.results("total").column("n").to_pylist() == [300])
        assert engine.results("bad").num_rows == 100
        assert harm in engine.metrics()["queries"]["bad"]["error"]
    finally:
        engine.stop()
    assert sorted(engine.results("good").column("v").to_pylist()) == [*range(200), *range(950, 1050)]


@pytest.mark.parametrize("harm", ["hang", "hang_in_c"])
def test_stop_ends_while_a_function_hangs(spark: Any, tmp_path: Path, harm: str) -> None:
    arrive(tmp_path, 0, range(100))
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(SCRIPT.format(root=tmp_path, harm=harm, timeout="1 hour"))
    engine.start()
    try:
        wait_until(lambda: engine.results("bad").num_rows == 100)
        assert engine._run is not None
        assert engine._run.epochs.hosts[0] is not None
        pid = engine._run.epochs.hosts[0].pid
        arrive(tmp_path, 1, range(950, 1050))
        wait_until(lambda: _busy(pid))
    finally:
        engine.stop()
    wait_until(lambda: not is_alive(pid))


def _busy(supervisor: int) -> bool:
    """Whether the network's process has used seconds of processor time since it started."""
    [child] = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) > 400
