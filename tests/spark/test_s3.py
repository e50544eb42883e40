"""A checkpoint on a real S3 protocol: an engine on Spark, restarts, two engines, refusals, and a server that ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import headgate as hg
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import Commit
from tests.arriving import arrive_json
from tests.spark.s3_server import S3Server, s3_server
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


def test_commits_are_read_back_and_an_epoch_is_never_committed_twice(server: S3Server) -> None:
    first = Checkpoint(server.uri("protocol"))
    first.probe()
    identity = first.identity()
    assert first.next_generation() > 0
    part = first.bundle("parts", 0, "a")
    part.add_bytes("part", b"x" * 6_000_000)
    part.close()
    place = part.places[0][1]
    first.commit(Commit(0, snapshots=(place,), files=(place.file,)))
    second = Checkpoint(server.uri("protocol"))
    assert second.identity() == identity
    second.next_generation()
    found = second.newest()
    assert found is not None
    assert second.read_bytes(found.snapshots[0]) == b"x" * 6_000_000
    with pytest.raises(CheckpointError, match="second engine"):
        first.commit(Commit(1, plan="first"))
    second.commit(Commit(1, plan="second", snapshots=(place,), files=(place.file,)))
    second.publish(1)
    second.clean(keep=1)
    assert Checkpoint(server.uri("protocol")).commits() == [second.load(1)]


def test_secrets_are_not_in_messages(server: S3Server) -> None:
    with pytest.raises(CheckpointError) as error:
        Checkpoint(server.uri("x").replace("@bucket", "@nobucket")).probe()
    assert "s3://nobucket/x?endpoint" in str(error.value)
    assert "NO_SUCH_BUCKET" in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def _engine(spark: Any, server: S3Server, root: Path, place: str, **more: Any) -> hg.Engine:
    engine = hg.Engine("cqc", server.uri(place), spark=spark, **more)
    engine.execute(
        f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{root}/in');"
        f"CREATE QUERY some INTO parquet OPTIONS (path '{root}/out') AS SELECT k, v FROM s WHERE v % 2 = 0"
    )
    engine.query("sums", "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k")
    return engine


def _rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"k": f"k{n % 2}", "v": n} for n in range(start, start + count)]


@pytest.mark.spark
def test_an_engine_continues_from_a_checkpoint_in_s3(spark: Any, server: S3Server, tmp_path: Path) -> None:
    def engine() -> hg.Engine:
        return _engine(spark, server, tmp_path, "engine", lane_log=str(tmp_path / "log"))

    for start in range(0, 30, 10):
        arrive_json(tmp_path / "in" / f"{start}.json", [*_rows(start, 10), "{broken"])
        running = engine()
        running.start()
        rows = range(start + 10)
        wanted = {f"k{key}": (len(rows[key::2]), sum(rows[key::2])) for key in (0, 1)}
        wait_until(lambda running=running, wanted=wanted: _sums(running) == wanted)  # type: ignore[misc]
        running.stop()
    assert sorted(_written(tmp_path)) == list(range(0, 30, 2))
    dead = server.files().get_file_info(fs.FileSelector("bucket/engine/dead-letters", recursive=True))
    assert len([info for info in dead if info.is_file]) == 3
    # Spark would begin with batch 0 again, and its rows would be taken for those that are committed.
    shutil.move(tmp_path / "log", tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"Spark's log of lane main in .* does not contain batch"):
        engine().start()
    shutil.move(tmp_path / "elsewhere", tmp_path / "log")
    finishing = engine()
    finishing.run_once()
    assert sorted(_written(tmp_path)) == list(range(0, 30, 2))


@pytest.mark.spark
def test_replicas_and_a_rescale_with_a_checkpoint_in_s3(spark: Any, server: S3Server, tmp_path: Path) -> None:
    def wait(running: hg.Engine, count: int) -> None:
        wanted = {f"k{key}": (len(range(key, count, 2)), sum(range(key, count, 2))) for key in (0, 1)}
        wait_until(lambda: _sums(running) == wanted)

    (tmp_path / "in").mkdir()
    for number, (first, second) in enumerate([(2, 3), (1, 2)]):
        running = _engine(spark, server, tmp_path, "replicas", lane_log=str(tmp_path / "log"), replicas=first)
        running.start()
        start = 30 * number
        arrive_json(tmp_path / "in" / f"{start}.json", _rows(start, 10))
        wait(running, start + 10)
        running.rescale(second)
        arrive_json(tmp_path / "in" / f"{start + 10}.json", _rows(start + 10, 20))
        wait(running, start + 30)
        running.stop()
    _engine(spark, server, tmp_path, "replicas", lane_log=str(tmp_path / "log"), replicas=3).run_once()
    assert sorted(_written(tmp_path)) == list(range(0, 60, 2))


def _sums(engine: hg.Engine) -> dict[str, tuple[int, int]]:
    return {row["k"]: (row["n"], row["total"]) for row in engine.results("sums").to_pylist()}


def _written(root: Path) -> list[int]:
    return [v for file in (root / "out").glob("*.parquet") for v in pq.read_table(file)["v"].to_pylist()]


@pytest.mark.spark
def test_without_a_place_for_the_lane_log_it_is_refused_in_one_line(
    spark: Any, server: S3Server, tmp_path: Path
) -> None:
    arrive_json(tmp_path / "in" / "a.json", _rows(0, 10))
    engine = _engine(spark, server, tmp_path, "refused")
    with pytest.raises(CheckpointError, match=r"give a folder for it with --lane-log DIR .*hadoop-aws:\d") as error:
        engine.start()
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.spark
def test_a_server_that_ends_stops_the_engine_with_one_line_and_nothing_is_lost(spark: Any, tmp_path: Path) -> None:
    with s3_server(tmp_path) as server:
        engine = _engine(spark, server, tmp_path, "ending", lane_log=str(tmp_path / "log"))
        arrive_json(tmp_path / "in" / "a.json", _rows(0, 10))
        engine.start()
        wait_until(lambda: len(_written(tmp_path)) == 5)
        server.process.kill()
        server.process.wait()
        arrive_json(tmp_path / "in" / "b.json", _rows(10, 10))
        with pytest.raises(CheckpointError, match="NETWORK_CONNECTION") as error:
            engine.wait(600)
        engine.stop()
        assert "\n" not in str(error.value)
        assert "damaged" not in str(error.value)
        with pytest.raises(CheckpointError, match=r"cannot be written: .*NETWORK_CONNECTION"):
            Checkpoint(server.uri("ending")).probe()
