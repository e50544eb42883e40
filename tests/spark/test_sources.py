"""Sources on Spark: sockets, Python data sources, rate, files; malformed rows become dead letters and are counted."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.checkpoint import Checkpoint
from tests.spark.counting import CountingSource
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


@contextmanager
def _sender(lines: list[str]) -> Iterator[int]:
    """Listens on a loopback port and sends all lines to each client; keeps the connections open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                connected.append(one)
                one.sendall("".join(f"{line}\n" for line in lines).encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for one in connected:
                one.close()


def _dead(engine: hg.Engine) -> list[tuple[str, str]]:
    folder = Path(engine.dead_letters)
    letters = [json.loads(line) for file in sorted(folder.glob("*.json")) for line in file.read_text().splitlines()]
    return sorted((row["stream"], row["row"]) for row in letters)


MALFORMED = {
    "json": ['{"k": "a", "v": 1}', "{broken", '{"k": "b", "v": "no number"}', '{"k": "c"}', '{"v": 4, "more": true}'],
    "csv": ["a,1", "b,no number", "c,", "d,4,one too many", "e"],
}
GOOD = {
    "json": [("a", 1), ("c", None), (None, 4)],
    "csv": [("a", 1), ("c", None)],
}
BAD = {
    "json": ["{broken", '{"k": "b", "v": "no number"}'],
    "csv": ["b,no number", "d,4,one too many", "e"],
}


def _pairs(engine: hg.Engine, query: str) -> list[Any]:
    return sorted(((row["k"], row["v"]) for row in engine.results(query).to_pylist()), key=repr)


@pytest.mark.parametrize("value_format", ["json", "csv"])
def test_lines_of_a_socket(spark: Any, tmp_path: Path, value_format: str) -> None:
    with _sender(MALFORMED[value_format]) as port:
        engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
        engine.execute(
            f"""CREATE STREAM s (k STRING, v INT) USING socket
            OPTIONS (host '127.0.0.1', port '{port}', value_format '{value_format}')"""
        )
        engine.query("pairs", "SELECT k, v FROM s")
        engine.query("ones", "SELECT k, v FROM s WHERE v = 1")
        engine.start()
        try:
            wait_until(lambda: engine.results("pairs").num_rows >= len(GOOD[value_format]))
            wait_until(lambda: engine.metrics()["dead_letters"] == {"s": len(BAD[value_format])})
        finally:
            engine.stop()
        assert _pairs(engine, "pairs") == sorted(GOOD[value_format], key=repr)
        assert _pairs(engine, "ones") == [("a", 1)]
        assert _dead(engine) == sorted(("s", row) for row in BAD[value_format])


def test_lines_before_a_restart_are_lost(spark: Any, tmp_path: Path) -> None:
    """The engine dies when it has read lines and committed nothing; their sender does not send them again."""
    found: list[list[Any]] = []
    for lines, dies in ((["a"], True), (["b", "c"], False)):
        with _sender(lines) as port:
            engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
            options = f"(host '127.0.0.1', port '{port}', value_format 'text')"
            engine.execute(f"CREATE STREAM s (k STRING) USING socket OPTIONS {options}")
            engine.query("q", "SELECT k FROM s")
            with pytest.MonkeyPatch.context() as patch:
                if dies:
                    patch.setattr(Checkpoint, "commit", _die)
                engine.start()
                try:
                    if dies:
                        with pytest.raises(Exception, match="the power is cut"):
                            engine.wait()
                    else:
                        wait_until(lambda now=engine: now.results("q").num_rows == 2)
                finally:
                    with suppress(Exception):
                        engine.stop()
        found.append(sorted(engine.results("q").column("k").to_pylist()))
    assert found == [[], ["b", "c"]]


def _die(*_: Any) -> None:
    raise ValueError("the power is cut")


@pytest.mark.parametrize("format_", ["json", "csv"])
@pytest.mark.parametrize("streams", [1, 2])
def test_malformed_rows_of_files(spark: Any, tmp_path: Path, format_: str, streams: int) -> None:
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    for number in range(streams):
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        for file in range(2):
            (folder / f"{file}.{format_}").write_text("".join(f"{line}\n" for line in MALFORMED[format_]))
        engine.execute(
            f"""CREATE STREAM s{number} (k STRING, v INT) USING {format_}
            OPTIONS (path '{folder}', maxFilesPerTrigger '1')"""
        )
        engine.query(f"pairs{number}", f"SELECT k, v FROM s{number}")
    engine.run_once()
    for number in range(streams):
        assert _pairs(engine, f"pairs{number}") == sorted(GOOD[format_] * 2, key=repr)
    names = [f"s{number}" for number in range(streams)]
    assert engine.metrics()["dead_letters"] == {name: 2 * len(BAD[format_]) for name in names}
    assert _dead(engine) == sorted((name, row) for name in names for row in BAD[format_] * 2)


@pytest.mark.slow
def test_a_python_data_source_by_its_name_and_as_a_dataframe(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(CountingSource)
    sums = "SELECT window(ts, '10 seconds') AS w, sum(n) AS s FROM {} GROUP BY window(ts, '10 seconds')"
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(
        """CREATE STREAM named (n BIGINT, k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 30 SECONDS)
        USING counting OPTIONS (end '100')"""
    )
    frame = spark.readStream.format("counting").option("end", "100").load()
    engine.stream("given", frame.withWatermark("ts", "30 seconds"))
    for stream in ("named", "given"):
        engine.query(f"even_{stream}", f"SELECT n, k FROM {stream} WHERE n % 2 = 0")
        engine.query(f"sums_{stream}", sums.format(stream))
    engine.start()
    try:
        wait_until(lambda: all(engine.results(f"even_{s}").num_rows == 50 for s in ("named", "given")))
        # The watermark is at 99 s less 30 s: the windows up to 60 s are closed.
        wait_until(lambda: all(engine.results(f"sums_{s}").num_rows == 6 for s in ("named", "given")))
    finally:
        engine.stop()
    for stream in ("named", "given"):
        found = engine.results(f"even_{stream}").to_pylist()
        assert sorted(row["n"] for row in found) == list(range(0, 100, 2))
        assert all(row["k"] == f"k{row['n'] % 3}" for row in found)
        wanted = [sum(range(start, start + 10)) for start in range(0, 60, 10)]
        assert sorted(engine.results(f"sums_{stream}").column("s").to_pylist()) == wanted


def test_rate_by_its_name(spark: Any) -> None:
    engine = hg.Engine("cqc", spark=spark)
    engine.execute("CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT) USING rate OPTIONS (rowsPerSecond '100')")
    engine.query("thirds", "SELECT value FROM ticks WHERE value % 3 = 0")
    engine.start()
    try:
        wait_until(lambda: engine.results("thirds").num_rows > 50)
    finally:
        engine.stop()
    values = sorted(engine.results("thirds").column("value").to_pylist())
    assert values == list(range(0, values[-1] + 1, 3)), "each number once, none left out"
