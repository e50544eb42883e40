"""What statements from the network may name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.server.access import AccessError
from headgate.server.allowed import StatementPermissions
from headgate.server.assembly import allowed
from headgate.sql import SqlError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a folder `in`, one that is hidden, a checkpoint, and a link that leads outside."""
    for name in ("in/a", ".git", "checkpoint", "out"):
        (tmp_path / "here" / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "here" / "link")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("path", ["in", "./in", "in/", "in/a", "in/*", "in/a/*.json", "new/folder", "{here}/in"])
def test_paths_below_the_folder(folder: Path, path: str) -> None:
    assert allowed((), checkpoint="checkpoint").path_problem(path.replace("{here}", str(folder))) is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../elsewhere",
        "in/../../elsewhere",
        "link",
        "link/x",
        "li*",
        "*/x",
        "l?nk",
        ".git",
        ".git/config",
        "in/.hidden",
        "checkpoint",
        "checkpoint/statements.json",
        ".",
        "",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "hdfs://host/x",
        "s3a://bucket/x",
        "in,/etc",
        "{in,/etc}",
        "in/%2e%2e/x",
        "in\\..\\x",
        "in\x00",
        "in\n",
        "/proc/self/environ",
        "{parent}",
        "{parent}/hereafter",
    ],
)
def test_paths_that_are_refused(folder: Path, path: str) -> None:
    may = allowed((), checkpoint="checkpoint")
    if path == "in,/etc":
        # One folder of that name, below this one: Spark is given one path.
        assert may.path_problem(path) is None
        return
    assert may.path_problem(path.replace("{parent}", str(folder.parent))) is not None


def test_uris_are_allowed_by_their_beginning() -> None:
    may = StatementPermissions(paths=("s3://bucket/data",))
    assert may.path_problem("s3://bucket/data/in") is None
    for path in ("s3://bucket/database", "s3://bucket/data/../x", "s3://bucket", "s3a://bucket/data/in", "/data"):
        assert may.path_problem(path) is not None


STREAM = "CREATE STREAM s (v INT) USING "
QUERY = "CREATE QUERY q INTO {} AS SELECT v FROM s"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"{STREAM} json OPTIONS (path '/etc')", "1:51: /etc is outside of what this server may use"),
        (f"{STREAM} json OPTIONS (PATH '/etc')", "/etc is outside"),
        (f"{STREAM} json OPTIONS (path 'in', sourceArchiveDir '/tmp')", "/tmp is outside"),
        (f"{STREAM} json OPTIONS (path 'in', cleanSource 'delete')", "option cleanSource is not allowed"),
        (f"{STREAM} json OPTIONS (path 'in', `spark.hadoop.x` 'y')", "option spark.hadoop.x is not allowed"),
        (f"{STREAM} jdbc OPTIONS (url 'jdbc:h2:mem:x')", "format jdbc is not allowed on this server; start it with"),
        (f"{STREAM} `org.apache.spark.sql.jdbc`", "is not allowed on this server"),
        (
            f"{STREAM} kafka OPTIONS (subscribe 't', 'kafka.bootstrap.servers' 'h:1', 'kafka.sasl.jaas.config' 'x')",
            "option kafka.sasl.jaas.config is not allowed",
        ),
        (QUERY.format("parquet OPTIONS (path '/tmp/x')"), "/tmp/x is outside"),
        (QUERY.format("delta OPTIONS (path 'out', checkpointLocation '/x')"), "checkpointLocation is not allowed"),
        (QUERY.format("delta OPTIONS (table 'delta.`/etc`')"), "is not the name of a table"),
        (QUERY.format("iceberg OPTIONS (path '/tmp/x')"), "/tmp/x is outside"),
        (QUERY.format("iceberg OPTIONS (path 'out', write.data.path '/x')"), "write.data.path is not allowed"),
        (QUERY.format("callback OPTIONS (function 'os:system')"), "functions of os are not allowed"),
        (QUERY.format("noop") + " WHERE reflect('java.lang.System', 'exit', 1) = ''", "calls Java methods"),
        ("CREATE QUERY q AS SELECT builtin.`Java_Method` ('a', 'b') FROM s", "calls Java methods"),
        ("CREATE QUERY q AS SELECT try_reflect\n-- x\n('a', 'b') FROM s", "1:26: try_reflect calls Java methods"),
        ("CREATE QUERY q AS SELECT from_protobuf(v, 'M', '/etc/x') FROM s", "reads files"),
        ("CREATE FUNCTION f(a INT) RETURNS INT AS 'os:system'", "1:41: Python functions of os are not allowed"),
        ("CREATE FUNCTION f(a INT) RETURNS INT AS 'goodness:f'", "functions of goodness are not allowed"),
        ("CREATE TABLE t (v INT) USING csv OPTIONS (path '../x')", "has a part .."),
    ],
)
def test_statements_that_are_refused(folder: Path, sql: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        allowed((), ["good"]).check(sql)
    assert message in str(error.value)


def test_what_the_operator_allows(folder: Path) -> None:
    may = allowed(["/tmp"], ["good"], ["jdbc"], ["kafka.*", "cleanSource", "url"])
    may.check(
        f"""{STREAM} kafka OPTIONS (subscribe 't', 'kafka.bootstrap.servers' 'h:1', 'kafka.sasl.jaas.config' 'x');
        CREATE FUNCTION f(a INT) RETURNS INT AS 'good:f'; CREATE FUNCTION g(a INT) RETURNS INT AS 'good.inside:g';
        CREATE STREAM t (v INT) USING json OPTIONS (path '/tmp/x', cleanSource 'delete', maxFileAge '1h');
        CREATE STREAM u (v INT) USING jdbc OPTIONS (url 'x'); CREATE QUERY q INTO memory AS SELECT v FROM t;
        PAUSE QUERY q; ALTER QUERY q SET (latency = '1 s'); DROP QUERY q"""
    )


def test_what_the_operator_must_correct(folder: Path) -> None:
    with pytest.raises(AccessError, match="nowhere is no folder"):
        allowed(["nowhere"])
    (folder / "token").write_text("x" * 20)
    with pytest.raises(AccessError, match="in a folder that statements may read"):
        allowed((), token_file="token")
    assert allowed(["in"], token_file="token").paths == ("in",)
