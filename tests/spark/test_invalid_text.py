"""Bytes that are no UTF-8: in texts they become U+FFFD, a row that cannot be parsed is a dead letter; all goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg

pytestmark = pytest.mark.spark

BAD = b"\xff\xfeA"
SHOWN = "\ufffd\ufffdA"
NESTED = "a STRUCT<t: STRING, l: ARRAY<STRING>>, m MAP<STRING, STRING>"


def test_text_that_is_not_utf_8(spark: Any, tmp_path: Path) -> None:
    for name, data in (("lines", BAD), ("json", b'{"k": "%s"}' % BAD), ("csv", BAD + b",1\n" + BAD + b",x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0").write_bytes(data + b"\n")
    text = f"CAST(X'{BAD.hex()}' AS STRING)"
    rows = spark.sql(f"SELECT {text} AS k, struct({text} AS t, array({text}) AS l) AS a, map('x', {text}) AS m")
    rows.write.parquet(str(tmp_path / "parquet"))
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    columns = {"lines": "value STRING", "json": "k STRING", "csv": "k STRING, n INT", "parquet": f"k STRING, {NESTED}"}
    selects = dict.fromkeys(columns, "*") | {"lines": "value, upper(value) AS u"}
    for name, declared in columns.items():
        source = "text" if name == "lines" else name
        engine.execute(f"CREATE STREAM {name}s ({declared}) USING {source} OPTIONS (path '{tmp_path / name}')")
        out = f"json OPTIONS (path '{tmp_path / 'out' / name}')"
        engine.execute(f"CREATE QUERY q_{name} INTO {out} AS SELECT {selects[name]} FROM {name}s")
    frame = spark.readStream.schema("k STRING").parquet(str(tmp_path / "parquet"))
    engine.stream("frames", frame)
    engine.query("q_frames", "SELECT k FROM frames")
    engine.run_once()
    assert {name: engine.results(f"q_{name}").to_pylist() for name in (*columns, "frames")} == {
        "lines": [{"value": SHOWN, "u": SHOWN}],
        "json": [],
        "csv": [{"k": SHOWN, "n": 1}],
        "parquet": [{"k": SHOWN, "a": {"t": SHOWN, "l": [SHOWN]}, "m": [("x", SHOWN)]}],
        "frames": [{"k": SHOWN}],
    }
    [written] = (tmp_path / "out" / "parquet").glob("*.json")
    assert json.loads(written.read_text())["k"] == SHOWN
    files = sorted(Path(engine.dead_letters).glob("*.json"))
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted((row["stream"], row["row"]) for row in letters) == [
        ("csvs", f"{SHOWN},x"),
        ("jsons", f'{{"k": "{SHOWN}"}}'),
    ]


def test_a_table_with_text_that_is_not_utf_8(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"SELECT 1 AS k, CAST(X'{BAD.hex()}' AS STRING) AS t").write.parquet(str(tmp_path / "table"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"k": 1}\n')
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    engine.execute(f"CREATE TABLE d (k INT, t STRING) USING parquet OPTIONS (path '{tmp_path / 'table'}')")
    engine.query("q", "SELECT s.k, d.t FROM s JOIN d ON s.k = d.k")
    engine.run_once()
    assert engine.results("q").to_pylist() == [{"k": 1, "t": SHOWN}]
