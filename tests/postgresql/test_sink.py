"""PostgreSQL tables: rows of queries that append and that update, every type, repeated epochs, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors import postgresql
from headgate.connectors.registry import open_sink
from headgate.spark.results import DriverWriter, SinkError
from tests.arriving import arrive_json
from tests.connectors.declared import clause, query_into
from tests.connectors.publishing import publish
from tests.connectors.test_sinks import TYPED
from tests.postgresql.server import Server
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _options(server: Server, table: str, **more: str) -> str:
    return clause({"url": server.url, "user": server.user, "password": server.password, "table": table, **more})


def test_queries_that_append_and_update(spark: Any, tmp_path: Path, server: Server) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    (tmp_path / "in").mkdir()
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    for name, select, more in (
        ("rows", "SELECT k, v FROM s", {}),
        ("newest", "SELECT k, v FROM s", {"key": "k"}),
        ("totals", "SELECT k, sum(v) AS total FROM s GROUP BY k HAVING sum(v) < 10", {"key": "k"}),
    ):
        engine.execute(f"CREATE QUERY {name} INTO postgresql {_options(server, f'q_{name}', **more)} AS {select}")
    engine.start()
    try:
        files = [[("a", 1), (None, 2)], [("a", 3), ("a", 4)], [("b", 9), (None, 9)], [("b", -5), (None, -5), ("a", 9)]]
        for number, rows in enumerate(files):
            before = engine.metrics()["queries"]["rows"]["published"]
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": k, "v": v} for k, v in rows])
            wait_until(lambda last=before: engine.metrics()["queries"]["rows"]["published"] > last)
    finally:
        engine.stop()
    assert len(server.ask("SELECT * FROM q_rows")) == 9
    assert sorted(server.ask("SELECT k, v FROM q_newest")) == [["", "-5"], ["a", "9"], ["b", "-5"]]
    assert sorted(server.ask("SELECT k, total FROM q_totals")) == [["", "6"], ["b", "4"]]


def test_every_type_and_repeated_epochs(spark: Any, tmp_path: Path, server: Server) -> None:
    whole = spark.createDataFrame(TYPED)
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in whole.schema.fields)
    query = query_into("postgresql", _options(server, "typed"), columns=ddl)
    for _ in range(2):
        writer = open_sink(spark, query, query.sinks[0], "run")
        assert isinstance(writer, DriverWriter)
        for epoch in range(2):
            publish(writer, query, epoch, TYPED.slice(epoch * 2, 2), tmp_path)
        writer.close()
    assert server.ask("SELECT count(*), count(big), count(letters), count(bits) FROM typed") == [["3", "2", "2", "2"]]
    shown = "flag, tiny, big, real, number, exact, word, letters, day, ts AT TIME ZONE 'UTC', wall, bits, items"
    assert server.ask(f'SELECT {shown}, pairs, "inner" FROM typed WHERE flag') == [
        [
            *("t", "-128", str(-(2**63)), "1.5", "0.1", "-1234567890123456789012345678.0123456789", 'a,b "c" \\'),
            *(
                "ü—日本 ",
                "1970-01-01",
                "2023-11-14 22:13:20.123456",
                "2023-11-14 22:13:20.12+00",
                "\\x00ff",
                "[1, null]",
            ),
            *('{"k": 1.5, "l": null}', '{"a": "1.50", "b": ["x"]}'),
        ]
    ]
    assert server.ask("SELECT real, number, large, word, letters FROM typed WHERE NOT flag") == [
        ["Infinity", "NaN", "-Infinity", "\\", ""]
    ]


def test_a_server_that_restarts(spark: Any, tmp_path: Path, server: Server) -> None:
    query = query_into("postgresql", _options(server, "restarted"))
    writer = open_sink(spark, query, query.sinks[0], "run")
    rows = pa.table({"k": ["a", "b"], "v": ['x,"y"\\', None]}, schema=query.schema.arrow())
    publish(writer, query, 0, rows, tmp_path)
    server.stop("immediate")
    server.start()
    publish(writer, query, 1, rows, tmp_path)
    writer.close()
    assert sorted(server.ask("SELECT k, v FROM restarted")) == [
        ["a", 'x,"y"\\'],
        ["a", 'x,"y"\\'],
        ["b", ""],
        ["b", ""],
    ]


def test_a_server_that_is_away_for_a_while(
    spark: Any, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_into("postgresql", _options(server, "away"))
    writer = open_sink(spark, query, query.sinks[0], "run")
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 6:
            server.start()

    monkeypatch.setattr(postgresql, "_wait", wait)
    server.stop("immediate")
    publish(writer, query, 0, pa.table({"k": ["a"], "v": ["x"]}), tmp_path)
    writer.close()
    assert server.ask("SELECT k, v FROM away") == [["a", "x"]]
    assert waited == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    monkeypatch.setattr(postgresql, "PATIENCE", 0.0)
    server.stop("immediate")
    try:
        with pytest.raises(SinkError, match=r"^query q: sink postgresql: table away: .*[Cc]onnection"):
            publish(writer, query, 1, pa.table({"k": ["a"], "v": ["x"]}), tmp_path)
    finally:
        server.start()


def test_an_open_sink_is_in_no_transaction(spark: Any, server: Server) -> None:
    query = query_into("postgresql", _options(server, "idle"))
    writer = open_sink(spark, query, query.sinks[0], "run")
    states = server.ask("SELECT state FROM pg_stat_activity WHERE application_name = 'headgate'")
    writer.close()
    assert states
    assert set(map(tuple, states)) == {("idle",)}


def test_what_is_refused(spark: Any, tmp_path: Path, server: Server) -> None:
    server.ask("CREATE TABLE unkeyed (k text, v text); CREATE TABLE narrow (k text)")

    def refused(table: str, **more: str) -> str:
        query = query_into("postgresql", _options(server, table, **more))
        with pytest.raises(SinkError) as raised:
            open_sink(spark, query, query.sinks[0], "run")
        message = str(raised.value)
        assert "\n" not in message
        assert server.password not in message
        return message

    assert "table unkeyed has no unique key (k), by which rows are replaced; write ALTER TABLE" in refused(
        "unkeyed", key="k"
    )
    assert "table narrow has no column v; it has k" in refused("narrow")
    wrong = refused("x", url=f"jdbc:postgresql://127.0.0.1:1/postgres?password={server.password}")
    assert "Connection to 127.0.0.1:1 refused" in wrong
    assert "password authentication failed" in refused("x", password="wrong")
    (tmp_path / "in").mkdir()
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    into = _options(server, "nokey")
    engine.execute(f"CREATE QUERY q INTO postgresql {into} AS SELECT k, count(*) AS n FROM s GROUP BY k")
    with pytest.raises(SinkError, match=r"^query q: sink postgresql: the query replaces rows, and the option key is"):
        engine.run_once()


def test_passwords_stay_out_of_the_checkpoint(spark: Any, tmp_path: Path, server: Server) -> None:
    arrive_json(tmp_path / "in" / "0.json", [{"k": "a", "v": 1}])
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    engine.execute(f"CREATE QUERY q INTO postgresql {_options(server, 'quiet')} AS SELECT k, v FROM s")
    engine.run_once()
    assert server.ask("SELECT k, v FROM quiet") == [["a", "1"]]
    files = [file for file in (tmp_path / "ck").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if server.password.encode() in file.read_bytes()]
    assert json.dumps(engine.metrics(), default=str).find(server.password) == -1
