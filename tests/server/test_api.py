"""The API over a real engine that is not started."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.server.api import Api
from headgate.server.client import Client, ServerError
from headgate.server.operations import operations
from headgate.server.service import ServerLimits, Service
from headgate.sql import SqlError
from tests.server.serving import STREAM, Http, LogInMemory, service, serving


@pytest.fixture
def kept() -> LogInMemory:
    return LogInMemory()


@pytest.fixture
def made(tmp_path: Path, kept: LogInMemory) -> Service:
    (tmp_path / "in").mkdir()
    limits = ServerLimits(body=5000, statement=2000, queries=3, declarations=6, rows=50, followers=2)
    return service(tmp_path, limits, kept)


def test_a_statement_is_executed_kept_and_shown(made: Service, kept: LogInMemory, tmp_path: Path) -> None:
    with serving(made) as http:
        answer = http.execute(STREAM.format(folder=tmp_path) + ";\nCREATE QUERY q AS SELECT k, v FROM s WHERE v > 5")
        assert answer.status == 200
        assert [each["name"] for each in answer.json()["statements"]] == ["s", "q"]
        [query] = http.get("/api/queries").json()["queries"]
        assert (query["name"], query["class"], query["sql"]) == ("q", "normal", "SELECT k, v FROM s WHERE v > 5")
        assert query["columns"] == [{"name": "k", "type": "STRING"}, {"name": "v", "type": "INT"}]
        [stream] = http.get("/api/streams").json()["streams"]
        assert (stream["name"], stream["format"], stream["options"]) == ("s", "json", {"path": f"{tmp_path}/in"})
        graph = http.get("/api/graph").json()
        assert [node["title"] for node in graph["nodes"]] == ["source", "select", "project", "q"]
        assert len(graph["edges"]) == 3
        assert http.get("/api/queries/Q/results").json() == {"columns": query["columns"], "rows": []}
        arrow = http.get("/api/queries/q/results", {"Accept": "application/vnd.apache.arrow.stream"})
        assert pa.ipc.open_stream(arrow.content).read_all().schema.names == ["k", "v"]
        assert http.get("/api/queries/q/results", {"Accept": "image/png"}).status == 406
        assert http.get("/api/classes").json()["classes"][0]["queries"] == 1
        assert http.request("DELETE", "/api/queries/q").status == 200
        assert http.get("/api/queries").json() == {"queries": []}
        assert http.get("/api/queries/q").status == 404
        texts = [event["text"] for event in http.get("/api/history").json()["events"]]
        assert texts == ["stream s created, query q created", "query q dropped"]
    assert [each["kind"] for each in json.loads(kept.data or b"")["statements"]] == ["CreateStream"]


@pytest.mark.parametrize(
    ("sql", "line", "column", "message"),
    [
        ("CREATE QUERY q AS\nSELECT nope FROM s", 2, 8, "unknown column nope"),
        ("CREATE CLASS c WITH (priority = 2);\n SELEC", 2, 2, ""),
        ("CREATE QUERY q AS SELECT v FROM s WHERE k = 'é' AND zz > 1", 1, 53, "unknown column zz"),
        (
            "CREATE CLASS c WITH (priority = 2); CREATE FUNCTION f(a INT) RETURNS INT AS 'os:system'",
            1,
            77,
            "not allowed",
        ),
        ("\ud800", 1, 1, "this is not a character"),
        ("SET TIME ZONE 'Mars/Base'", 1, 15, "unknown time zone"),
    ],
)
def test_a_refused_statement_has_its_place(
    made: Service, kept: LogInMemory, tmp_path: Path, sql: str, line: int, column: int, message: str
) -> None:
    with serving(made) as http:
        http.execute(STREAM.format(folder=tmp_path))
        before = kept.data
        for path in ("/api/statements", "/api/check"):
            answer = http.request("POST", path, {"sql": sql})
            found = answer.json()
            assert (answer.status, found["line"], found["column"]) == (400, line, column)
            assert message in found["message"]
        assert list(made.engine.catalog.classes) == ["normal"]
        assert kept.data == before


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"1e999", b"\xff\xfe", b"[" * 4000, b'{"sql": 1}', b'{"sql": ""}'),
        *(b'{"sql": " \\n"}', b'{"sql": "x", "more": 1}', b'{"SQL": "x"}', b'{"policy": "rr"}'),
    ],
)
def test_bodies_that_are_refused(made: Service, body: bytes) -> None:
    with serving(made) as http:
        answer = http.request("POST", "/api/statements", body)
        assert answer.status == 400
        assert set(answer.json()) == {"message"}


def test_a_text_without_a_statement_does_nothing(made: Service, kept: LogInMemory) -> None:
    with serving(made) as http:
        for text in ("-- nothing", "/* nothing */", ";"):
            found = http.request("POST", "/api/statements", {"sql": text})
            assert (found.status, found.json()) == (200, {"statements": []}), found


def test_a_wrong_method_names_the_right_ones(made: Service) -> None:
    with serving(made) as http:
        found = http.request("PATCH", "/api/policy", {})
        assert found.status == 405
        documented = http.request("GET", "/openapi.json").json()["paths"]["/api/policy"]
        allowed = {method.strip() for method in found.headers["allow"].split(",")}
        assert allowed - {"HEAD"} == {method.upper() for method in documented}


def test_limits(made: Service, tmp_path: Path) -> None:
    with serving(made) as http:
        assert http.request("POST", "/api/statements", {"sql": "x" * 6000}).status == 413
        # A body whose length is not told.
        assert http.request("POST", "/api/statements", iter([b"x" * 4000] * 2)).status == 413
        assert http.execute("SELECT 1 -- " + "x" * 3000).status == 429
        assert http.execute(STREAM.format(folder=tmp_path)).status == 200
        for number in range(3):
            assert http.execute(f"CREATE QUERY q{number} AS SELECT v FROM s").status == 200
        answer = http.execute("CREATE QUERY q3 AS SELECT v FROM s")
        assert (answer.status, answer.json()["message"]) == (429, "there are 3 queries; at most 3 are allowed")
        assert http.execute("DROP QUERY q0; CREATE QUERY q3 AS SELECT v FROM s").status == 200
        classes = ";".join(f"CREATE CLASS c{number} WITH (priority = 2)" for number in range(9))
        assert http.execute(classes).status == 429
        for limit in ("0", "51", "-1", "x", "1e1", "٣", "9" * 5000, ""):
            assert http.get(f"/api/queries/q1/results?limit={_quoted(limit)}").status == 400
        assert http.get("/api/queries/q1/results?limit=50").status == 200


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text)


def test_policy_and_objectives(made: Service, kept: LogInMemory) -> None:
    with serving(made) as http:
        assert http.request("PUT", "/api/policy", {"policy": "chain"}).json() == {"policy": "chain"}
        known = http.get("/api/policy").json()
        assert known["policy"] == made.engine.policy == "chain"
        names = [each["name"] for each in known["policies"]]
        assert {"cqc", "rr"} < set(names)
        assert "mss" not in names
        for policy in ("nosuch", "mss", "rr:rows=x", "cqc:" * 400):
            assert http.request("PUT", "/api/policy", {"policy": policy}).status == 400
        weights = {"objectives": {"delay": 0.7, "output": 0.3}}
        assert http.request("PUT", "/api/objectives", weights).json() == weights
        assert http.get("/api/objectives").json() == weights
        for wrong in ({"delay": 0.5}, {"nosuch": 1}, {"delay": "1"}, {"delay": True}, [1], {"delay": -1, "output": 2}):
            assert http.request("PUT", "/api/objectives", {"objectives": wrong}).status == 400, wrong
        assert http.get("/api/objectives").json() == weights
        assert http.request("PUT", "/api/objectives", {"objectives": {}}).json() == {"objectives": {}}
        assert "chain" in str(kept.data)
        assert "SetObjectives" not in str(kept.data)


def test_secrets_are_shown_nowhere(made: Service, tmp_path: Path) -> None:
    made.allowed.__dict__["options"] = ("kafka.*",)
    # A server without a checkpoint: nothing is kept.
    made._statements = None
    sql = """CREATE STREAM k (value STRING) USING kafka OPTIONS (subscribe 't', 'kafka.bootstrap.servers' 'h:1',
        'kafka.sasl.jaas.config' 'login password="hunter-2"', value_format 'raw')"""
    with serving(made) as http:
        assert http.execute(sql).status == 200
        assert http.get("/api/streams").json()["streams"][0]["options"]["kafka.sasl.jaas.config"] == "***"
        # The message of an error repeats the value of a wrong option.
        wrong = sql.replace("STREAM k", "STREAM l").replace("value_format 'raw'", "failOnDataLoss 'hunter-22'")
        wrong = wrong.replace('hunter-2"', 'hunter-22"').replace('login password="hunter-22"', "hunter-22")
        answer = http.execute(wrong)
        assert answer.status == 400
        assert "hunter" not in answer.content.decode()
        assert "***" in answer.json()["message"]
        for path in ("/api/streams", "/api/queries", "/api/history", "/api/graph", "/api/metrics", "/metrics"):
            assert b"hunter" not in http.get(path).content


def test_secrets_are_not_kept(made: Service, kept: LogInMemory) -> None:
    made.allowed.__dict__["options"] = ("kafka.*",)
    sql = """CREATE STREAM k (value STRING) USING kafka OPTIONS (subscribe 't', 'kafka.bootstrap.servers' 'h:1',
        'kafka.sasl.jaas.config' 'login password="%s"', value_format 'raw')"""
    with serving(made) as http:
        for password, said in (
            (
                "hunter-2",
                "the option kafka.sasl.jaas.config has a secret, which would be kept in the checkpoint; write",
            ),
            ("${env:PATH}", "the environment variable PATH may not be named; only those that begin with HEADGATE_SECR"),
        ):
            answer = http.execute(sql % password)
            assert (answer.status, answer.json()["line"], answer.json()["column"]) == (400, 2, 34)
            assert answer.json()["message"].startswith(said)
        assert http.execute(sql % "${env:HEADGATE_SECRET_KAFKA}").status == 200
    assert "hunter" not in str(kept.data)
    assert "HEADGATE_SECRET_KAFKA" in str(kept.data)


def test_every_operation_has_a_handler_and_every_answer_is_documented(made: Service) -> None:
    for operation in operations(10):
        assert callable(getattr(Api, operation.name))
    with serving(made) as http:
        document = http.get("/openapi.json").json()
        assert document["openapi"] == "3.1.0"
        for path, each in document["paths"].items():
            assert http.request("PATCH", path.replace("{name}", "q")).status == 405
            for method, operation in each.items():
                if path.endswith("events"):
                    continue
                answer = http.request(method.upper(), path.replace("{name}", "q"))
                assert str(answer.status) in operation["responses"], (method, path)
        assert http.get("/api/nothing").status == 404
        assert http.get("/api/queries/").status == 404


def test_the_metrics_are_what_prometheus_reads(made: Service, tmp_path: Path) -> None:
    with serving(made) as http:
        http.execute(STREAM.format(folder=tmp_path) + '; CREATE QUERY `a"b\\c` AS SELECT v FROM s')
        answer = http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        seen: set[str] = set()
        for line in answer.content.decode().splitlines():
            if line.startswith("# "):
                assert re.fullmatch(r"# (HELP|TYPE) headgate_[a-z_]+ .+", line)
                continue
            found = re.fullmatch(r'(headgate_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.e+-]+', line)
            assert found, line
            seen.add(line.rpartition(" ")[0])
        lines = [line for line in answer.content.decode().splitlines() if not line.startswith("#")]
        assert len(seen) == len(lines)
        assert 'headgate_query_state{query="a\\"b\\\\c",class="normal",state="running"}' in seen


def test_results_and_metrics_are_followed(made: Service, tmp_path: Path) -> None:
    from headgate.spark.results import Results

    def results(epoch: int, rows: int) -> Results:
        return Results("q", epoch, pa.table({"v": pa.array(range(rows), pa.int32())}))

    with serving(made) as http:
        http.execute(STREAM.format(folder=tmp_path) + "; CREATE QUERY q AS SELECT v FROM s")
        client = Client(http.url)
        events = client.events("/api/queries/Q/results/events")
        metrics = client.events("/api/metrics/events")
        assert next(events) == ("columns", {"query": "q"})
        assert next(metrics)[0] == "status"
        assert client.metrics()["epochs"] == 0
        assert http.get("/api/metrics/events").status == 429
        made.engine._sinks.notify("q", results(1, 2))
        made.engine._sinks.notify("q", results(2, 60))
        kind, first = next(events)
        assert (kind, first["epoch"], first["rows"], first["skipped"]) == ("results", 1, [{"v": 0}, {"v": 1}], 0)
        _, second = next(events)
        assert (second["skipped"], len(second["rows"]), second["rows"][-1]) == (10, 50, {"v": 59})
        made._take_sample()
        assert [next(metrics)[0] for _ in range(4)] == ["sample", "queries", "graph", "status"]
        client.drop("q")
        assert list(events) == []
        assert [kind for kind, _ in (next(metrics), next(metrics))] == ["event", "status"]


def test_the_client_has_the_methods_of_the_engine(made: Service, tmp_path: Path) -> None:
    with serving(made) as http:
        client = Client(http.url)
        client.execute(STREAM.format(folder=tmp_path))
        assert client.check("CREATE QUERY q AS SELECT v FROM s")[0]["name"] == "q"
        made_query = client.query("it's `odd`", "SELECT v\nFROM s", spec={"latency": "500 ms"})
        assert (made_query["name"], made_query["sql"]) == ("it's `odd`", "SELECT v\nFROM s")
        with pytest.raises(SqlError) as error:
            client.query("r", "SELECT v,\n  nope FROM s")
        assert (error.value.file, error.value.line, error.value.column) == ("r", 2, 3)
        assert list(client.queries) == ["it's `odd`"]
        assert list(client.streams) == ["s"]
        client.pause("it's `odd`")
        assert client.declared("it's `odd`")["state"] == "paused"
        client.resume("it's `odd`")
        assert client.declared("it's `odd`")["state"] == "stopped"  # the engine does not run
        client.policy = "rr"
        assert client.policy == "rr"
        assert "rr" in client.policies
        client.objectives = {"delay": 1}
        assert client.objectives == {"delay": 1.0}
        assert client.results("it's `odd`").num_rows == 0
        assert client.decisions() == []
        assert client.dead_letters()["rows"] == []
        with pytest.raises(ServerError, match="has not failed"):
            client.retry("it's `odd`")
        client.drop("it's `odd`")
        for call in (client.drop, client.pause, client.resume, client.retry, client.results):
            with pytest.raises(ServerError, match="there is no query gone"):
                call("gone")
    for url in ("http://127.0.0.1:1", "ftp://x", "nonsense", "http://[::1"):
        with pytest.raises(ServerError):
            Client(url).status()


def test_a_statement_that_cannot_be_kept_is_not_executed(tmp_path: Path) -> None:
    class Full(LogInMemory):
        def write(self, data: bytes) -> None:
            from headgate.spark.checkpoint import CheckpointError

            raise CheckpointError("statements.json cannot be written: no space left")

    made = service(tmp_path, kept=Full())
    with serving(made) as http:
        answer = http.execute("CREATE CLASS c WITH (priority = 2)")
        assert (answer.status, answer.json()) == (503, {"message": "statements.json cannot be written: no space left"})
        assert "c" not in made.engine.catalog.classes


def test_an_error_inside_shows_nothing_of_it(made: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise KeyError("internal-detail")

    monkeypatch.setattr(made.view, "queries", broken)
    with serving(made) as http:
        answer = http.get("/api/queries")
        assert answer.status == 500
        assert b"internal-detail" not in answer.content


def test_requests_wait_for_an_engine_that_starts(made: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.server import api

    with serving(made) as http:
        made._set("starting")
        monkeypatch.setattr(api, "_START_PATIENCE", 0.05)
        answer: Http = http
        assert answer.get("/api/queries").status == 503
        assert answer.get("/healthz").status == 503
        assert answer.get("/").status == 200
        assert b"headgate_up 0" in answer.get("/metrics").content
        made._set("running")
        assert answer.get("/api/queries").status == 200
