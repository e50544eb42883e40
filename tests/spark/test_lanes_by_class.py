"""Streams of different classes come in lanes of their own: the same results, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE CLASS standard WITH (priority = 3);
CREATE CLASS report WITH (priority = 1);
CREATE STREAM a (k STRING, v INT) USING json OPTIONS (path '{root}/a');
CREATE STREAM b (k STRING, v INT) USING json OPTIONS (path '{root}/b');
CREATE STREAM c (k STRING, v INT) USING json OPTIONS (path '{root}/c');
CREATE STREAM d (k STRING, v INT) USING json OPTIONS (path '{root}/d');
CREATE QUERY reports CLASS report INTO json OPTIONS (path '{root}/reports') AS SELECT k, v FROM a;
CREATE QUERY alerts CLASS critical INTO json OPTIONS (path '{root}/alerts') AS SELECT k, v FROM b WHERE v % 2 = 0;
CREATE QUERY both CLASS standard INTO json OPTIONS (path '{root}/both') AS
SELECT k, v FROM c UNION ALL SELECT k, v FROM d;
"""


def _arrive(root: Path, number: int) -> None:
    for place, stream in enumerate("abcd"):
        first = 1000 * place + 10 * number
        rows = [{"k": stream, "v": v} for v in range(first, first + 10)]
        arrive_json(root / stream / f"{number}.json", rows)


def _found(root: Path, query: str) -> list[int]:
    folder = root / query
    files = sorted(folder.glob("*.json")) if folder.exists() else []
    return sorted(json.loads(line)["v"] for file in files for line in file.read_text().splitlines())


def _wanted(count: int, *places: int, even: bool = False) -> list[int]:
    values = [1000 * place + v for place in places for v in range(10 * count)]
    return sorted(v for v in values if not even or v % 2 == 0)


def _complete(root: Path, count: int) -> bool:
    return (
        _found(root, "reports") == _wanted(count, 0)
        and _found(root, "alerts") == _wanted(count, 1, even=True)
        and _found(root, "both") == _wanted(count, 2, 3)
    )


def test_results_are_complete_and_nothing_comes_twice(spark: Any, tmp_path: Path) -> None:
    _arrive(tmp_path, 0)
    for count in (2, 4):
        engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
        engine.execute(SCRIPT.format(root=tmp_path))
        engine.start()
        _arrive(tmp_path, count - 1)
        if count == 4:
            _arrive(tmp_path, 2)
        wait_until(lambda count=count: _complete(tmp_path, count))  # type: ignore[misc]
        engine.stop()
        assert engine.failure is None
    noted = json.loads((tmp_path / "ck" / "lanes.json").read_text())["lanes"]
    assert noted == {"main": ["b"], "lane-1-c": ["c", "d"], "lane-2-a": ["a"]}
    _arrive(tmp_path, 4)
    last = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    last.execute(SCRIPT.format(root=tmp_path))
    last.run_once()
    assert _complete(tmp_path, 5)
