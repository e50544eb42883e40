"""Streams that Spark reads as one source: each gets its own rows, and streams of one place get all rows each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.connectors.declared import clause

pytestmark = pytest.mark.spark

FOLDERS = {
    "parent": "in",
    "same": "in",
    "child": "in/b",
    # The one path ends as the whole other path does.
    "short": "data",
    "long": "y{}/data",
    "spaces": "a b\u00a0c",
    "signs": "ü%20+&='#",
    "link": "uri",
}
COLUMNS = "k STRING, ts TIMESTAMP"


def test_each_stream_gets_the_rows_of_its_own_folder(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    for name, path in FOLDERS.items():
        folder = tmp_path / path.format(tmp_path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "f.json").write_text(json.dumps({"k": path}) + "\n")
        place = f"file://{folder}" if name == "link" else str(folder)
        late = ", WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS" if name == "same" else ""
        engine.execute(f"CREATE STREAM {name} ({COLUMNS}{late}) USING json {clause({'path': place})}")
        engine.query(f"q_{name}", f"SELECT k FROM {name}")
    engine.run_once()
    found = {name: engine.results(f"q_{name}").column("k").to_pylist() for name in FOLDERS}
    assert found == {name: [path] for name, path in FOLDERS.items()}
