"""Sources at their edges: no column read, empty files, one column, nested and wide rows, files that vanish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.lane import Lane
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

WIDE = 500
JSON = ['{"k": "a", "v": 1}', "{broken", '{"k": "b", "v": "no number"}', '{"k": "c", "v": 3}']
NESTED = [
    '{"a": {"b": {"c": 1, "d": [{"e": "x"}, {"e": null}]}}, "m": {"k": 7}}',
    '{"a": null}',
    '{"a": {"b": {"c": "?"}}}',
]
STREAMS: dict[str, tuple[str, str, list[list[str]]]] = {
    "objects": ("json", "k STRING, v INT", [JSON]),
    "lines": ("csv", "v INT, k STRING", [["1,a", "x,b", "3,c"]]),
    "one_object": ("json", "v INT", [JSON]),
    "one_value": ("csv", "v INT", [["1", "", "x", "2"]]),
    "partly_empty": ("json", "k STRING", [[], ["", ""], JSON]),
    "all_empty": ("json", "k STRING", [[], []]),
    "no_files": ("json", "k STRING", []),
    "nested": ("json", "a STRUCT<b: STRUCT<c: INT, d: ARRAY<STRUCT<e: STRING>>>>, m MAP<STRING, INT>", [NESTED]),
    "wide": ("csv", ", ".join(f"c{n} INT" for n in range(WIDE)), [[",".join(map(str, range(WIDE)))]]),
}
"""By stream: the format, the columns and the lines of each file."""
COUNTS = {
    "objects": 3,
    "lines": 2,
    "one_object": 2,
    "one_value": 2,
    "partly_empty": 3,
    "all_empty": 0,
    "no_files": 0,
    "nested": 2,
    "wide": 1,
}
"""Rows that are not malformed in the one column that count(*) makes Spark read."""


BAD = {"objects": 1, "lines": 1, "one_object": 2, "one_value": 1, "partly_empty": 1, "nested": 1}


@pytest.mark.parametrize("names", [["objects", "lines"], pytest.param(list(STREAMS), marks=pytest.mark.slow)])
def test_a_stream_of_which_no_query_reads_a_column(spark: Any, tmp_path: Path, names: list[str]) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    _declare(engine, tmp_path, names)
    for name in names:
        engine.query(f"n_{name}", f"SELECT count(*) AS n FROM {name}")
    engine.run_once()
    assert {name: engine.results(f"n_{name}").to_pylist() for name in names} == {
        name: [{"n": COUNTS[name]}] for name in names
    }
    assert engine.metrics()["dead_letters"] == {name: BAD[name] for name in names if name in BAD}


@pytest.mark.slow
def test_few_many_and_nested_columns(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    _declare(engine, tmp_path, ["one_value", "partly_empty", "nested", "wide"])
    engine.query("values", "SELECT v FROM one_value")
    engine.query("keys", "SELECT k FROM partly_empty")
    engine.query("members", "SELECT a.b.c AS c, a.b.d[0].e AS e, m['k'] AS k FROM nested")
    engine.query("all_columns", "SELECT * FROM wide")
    engine.query("two_columns", f"SELECT c0, c{WIDE - 1} AS z FROM wide")
    engine.run_once()
    assert engine.results("values").column("v").to_pylist() == [1, 2]
    assert engine.results("keys").column("k").to_pylist() == ["a", "b", "c"]
    members = engine.results("members").to_pylist()
    assert members == [{"c": 1, "e": "x", "k": 7}, {"c": None, "e": None, "k": None}]
    assert engine.results("all_columns").to_pylist() == [{f"c{n}": n for n in range(WIDE)}]
    assert engine.results("two_columns").to_pylist() == [{"c0": 0, "z": WIDE - 1}]


def test_an_epoch_whose_file_vanished_is_repeated(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"k": "a"}))
    listed = spark.read.schema("k STRING").json(str(file))
    file.unlink()
    with pytest.raises(Exception, match="a\\.json") as raised:
        listed.collect()
    assert EpochFailures.transient(raised.value)


def test_an_engine_goes_on_when_a_listed_file_vanishes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is removed between Spark's listing and the job that reads it."""
    folder = tmp_path / "in"
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    folder.mkdir()
    engine.execute(f"CREATE STREAM s (v INT) USING json OPTIONS (path '{folder}', ignoreMissingFiles 'true')")
    engine.query("q", "SELECT v FROM s")
    for number in range(3):
        (folder / f"{number}.json").write_text(json.dumps({"v": number}))
    delivered = Lane._batch
    removed: list[Path] = []

    def batch(self: Lane, frame: Any, number: int) -> None:
        if not removed:
            removed.append(folder / "1.json")
            removed[0].unlink()
        delivered(self, frame, number)

    monkeypatch.setattr(Lane, "_batch", batch)
    engine.start()
    try:
        wait_until(lambda: engine.results("q").num_rows == 2)
        arrive_json(folder / "3.json", [{"v": 3}])
        wait_until(lambda: engine.results("q").num_rows == 3)
    finally:
        engine.stop()
    assert sorted(engine.results("q").column("v").to_pylist()) == [0, 2, 3]


def _declare(engine: hg.Engine, folder: Path, names: list[str]) -> None:
    for name in names:
        format_, columns, files = STREAMS[name]
        (folder / name).mkdir()
        for number, lines in enumerate(files):
            (folder / name / f"{number}.{format_}").write_text("".join(f"{line}\n" for line in lines))
        engine.execute(f"CREATE STREAM {name} ({columns}) USING {format_} OPTIONS (path '{folder / name}')")
