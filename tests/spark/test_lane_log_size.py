"""Spark's log of the files that it has read stays small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json

TRIGGERS = 1_300
MOST = 5 << 19
"""Bytes. Every thirtieth file of the log repeats all entries, some 150 bytes for each file that was read: all of them
together have 4 MB after 1,300 triggers. Our sessions keep those of the last ten seconds."""


@pytest.mark.slow
@pytest.mark.spark
def test_the_log_of_a_folder_is_small_after_many_triggers(spark: Any, tmp_path: Path) -> None:
    for number in range(TRIGGERS):
        arrive_json(tmp_path / "s" / f"{number:05d}.json", [{"v": number}])
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (v INT) USING json OPTIONS (path '{tmp_path}/s', maxFilesPerTrigger '1')")
    engine.query("total", "SELECT sum(v) AS v FROM s")
    engine.run_once()
    assert engine.results("total").to_pylist() == [{"v": TRIGGERS * (TRIGGERS - 1) // 2}]
    logs = [file for file in (tmp_path / "ck" / "lanes").glob("*/sources/**/*") if file.is_file()]
    size = sum(file.stat().st_size for file in logs)
    print(f"{size:,} bytes in {len(logs)} files after {TRIGGERS:,} triggers")
    assert size < MOST
