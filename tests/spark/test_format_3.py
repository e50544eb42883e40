"""A checkpoint that Headgate wrote when checkpoints had format 3 (`format_3.zip`): it is continued, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headgate.engine import Engine
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import FORMAT
from headgate.spark.lane_notes import noted
from headgate.spark.plan import Plan
from tests.spark.format_1 import FILES, POLICY, QUERIES, arrive
from tests.spark.format_3 import PAUSED, declarations, extracted
from tests.spark.test_format_1 import GOOD, _expected, _found


def test_its_files_are_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint(extracted(tmp_path))
    newest = checkpoint.newest()
    assert newest is not None
    lanes = noted(checkpoint)
    assert sorted(map(sorted, lanes.values())) == [["r", "s"], ["t"]]
    assert set(newest.lanes) == set(lanes)
    assert [failure["query"] for failure in newest.failures] == ["failed"]
    plan = Plan.load(checkpoint, newest.plan)
    assert {query.name for query in plan.queries} == {*QUERIES, "few"}
    assert [query.name for query in plan.queries if query.pause] == [PAUSED]
    manifest = checkpoint.manifest(newest.snapshots[0])
    assert manifest["queues"], "rows wait"
    assert manifest["policy"]["state"], "the policy has learned"


@pytest.mark.spark
def test_an_engine_continues_it(spark: Any, tmp_path: Path) -> None:
    assert FORMAT == 3, "keep this file, and add a checkpoint of the new format beside it"
    folder = extracted(tmp_path)
    for stream in ("s", "r", "t"):
        for number in range(FILES):
            arrive(tmp_path, stream, number)
    engine = Engine(POLICY, folder, spark=spark)
    engine.execute(declarations(tmp_path))
    # As the script says, no query is paused: the rows that wait in queues are processed now.
    engine.run_once()
    assert engine.failure is None
    assert engine.resumption is not None
    found = {
        name: _found(name, [pq.read_table(file) for file in (tmp_path / "out" / name).glob("*.parquet")])
        for name in GOOD
    }
    assert found == _expected(tmp_path)
