"""A checkpoint that Headgate wrote when checkpoints had format 1 (`format_1.zip`): it is continued, nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.engine import Engine
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.resumption import Resumption
from headgate.sql import Catalog
from tests.spark.format_1 import BEFORE, FILES, POLICY, QUERIES, arrive, extracted, script

GOOD = [name for name in QUERIES if name != "failed"]


def _queries(root: Path) -> dict[str, Query]:
    catalog = Catalog()
    catalog.execute(script(root))
    return dict(catalog.queries)


def _expected(root: Path) -> dict[str, Counter[Any]]:
    """The answers over all rows, in plain Python."""
    s, r = (
        [row for number in range(FILES) for row in pq.read_table(root / stream / f"{number:03d}.parquet").to_pylist()]
        for stream in ("s", "r")
    )
    groups: dict[tuple[int, str], list[int]] = {}
    for row in s:
        groups.setdefault((int(row["ts"].timestamp()) // 10, row["k"]), []).append(row["v"])
    return {
        "hot": Counter((row["ts"], row["k"], row["v"]) for row in s if row["v"] > 70),
        "sums": Counter((start * 10, k, sum(values), len(values)) for (start, k), values in groups.items()),
        "pairs": Counter(
            (a["ts"], a["k"], a["v"], b["w"])
            for a in s
            for b in r
            if a["k"] == b["k"] and 0 <= (b["ts"] - a["ts"]).total_seconds() <= 5
        ),
    }


def _found(name: str, tables: list[pa.Table]) -> Counter[Any]:
    rows = [row for table in tables for row in table.to_pylist()]
    if name == "sums":
        return Counter((int(row["w"]["start"].timestamp()), row["k"], row["total"], row["n"]) for row in rows)
    return Counter(tuple(row.values()) for row in rows)


def test_its_commits_are_read_as_commits_of_this_format(tmp_path: Path) -> None:
    checkpoint = Checkpoint(extracted(tmp_path))
    commits = checkpoint.commits()
    assert [commit.epoch for commit in commits] == [0, 1, 2, 3]
    newest = commits[-1]
    assert (newest.lanes, newest.plan, newest.complete) == ({"main": 3}, "", False)
    assert [failure["query"] for failure in newest.failures] == ["failed"]
    assert all((tmp_path / "ck" / file).exists() for file in newest.files)
    queries = _queries(tmp_path)
    assert Resumption.of(checkpoint, newest, queries) == Resumption(3)
    del queries["hot"]
    assert Resumption.of(checkpoint, newest, queries) == Resumption(3, removed=("hot",))


def test_its_state_is_continued(tmp_path: Path) -> None:
    checkpoint = Checkpoint(extracted(tmp_path))
    graph = SharedGraph()
    for query in _queries(tmp_path).values():
        graph.add(query)
    store = CheckpointStore(checkpoint)
    network = Network(graph, POLICY, store=store)
    commits = checkpoint.commits()
    manifest = checkpoint.manifest(commits[-1].snapshots[0])
    store.adopt(manifest)
    network.restore(manifest)
    assert network.waiting > 0
    assert list(network.failures) == ["failed"]
    results = {
        name: [checkpoint.read(place) for commit in commits for query, place in commit.results if query == name]
        for name in GOOD
    }
    for stream in ("s", "r"):
        for number in range(FILES):
            arrive(tmp_path, stream, number)
        for number in range(BEFORE, FILES):
            for batch in pq.read_table(tmp_path / stream / f"{number:03d}.parquet").to_batches():
                network.push(stream, batch)
    network.finish()
    network.run()
    for name, tables in results.items():
        assert tables or name == "sums", "the checkpoint holds results that are not published"
        tables += [pa.table(result.rows) for result in network.take(name)]
    assert {name: _found(name, tables) for name, tables in results.items()} == _expected(tmp_path)


@pytest.mark.spark
def test_an_engine_continues_it(spark: Any, tmp_path: Path) -> None:
    folder = extracted(tmp_path)
    for file in (tmp_path / "ck" / "plans").iterdir():
        file.write_bytes(b"pickled plans are not loaded")
    for stream in ("s", "r"):
        for number in range(FILES):
            arrive(tmp_path, stream, number)
    engine = Engine(POLICY, folder, spark=spark)
    engine.execute(script(tmp_path))
    engine.run_once()
    assert engine.resumption == Resumption(3)
    assert "row 1000 is one too many" in json.dumps(engine.metrics())
    found = {
        name: _found(name, [pq.read_table(file) for file in (tmp_path / "out" / name).glob("*.parquet")])
        for name in GOOD
    }
    assert found == _expected(tmp_path)
    newest = Checkpoint(folder).newest()
    assert newest is not None
    assert newest.complete
    assert newest.plan
