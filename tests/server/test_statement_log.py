"""The log of what is registered."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st_

from headgate.server.statement_log import CheckpointLogFile, LoggedStatement, StatementLog, compacted, split
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.sql import Catalog
from headgate.sql.dialect import parse
from headgate.sql.errors import Script
from tests.server.serving import LogInMemory

STREAM = "CREATE STREAM s (v INT, k STRING) USING rate"


def logged(text: str) -> list[LoggedStatement]:
    return split(text, list(parse(Script(text, "x"))))


def test_statements_are_kept_one_by_one() -> None:
    found = logged(f"-- first\n{STREAM};\n\nCREATE QUERY a AS SELECT ';' AS x FROM s; -- last\n")
    assert [(each.kind, each.name) for each in found] == [("CreateStream", "s"), ("CreateQuery", "a")]
    assert found[0].sql == STREAM
    assert found[1].sql.startswith("CREATE QUERY a AS SELECT ';' AS x FROM s")
    Catalog().execute(";\n".join(each.sql for each in found))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CREATE QUERY a AS SELECT v FROM s; DROP QUERY A", []),
        ("CREATE QUERY a AS SELECT v FROM s; ALTER QUERY a SET (latency = '1 s'); PAUSE QUERY a; DROP QUERY a", []),
        (
            "CREATE QUERY a AS SELECT v FROM s; PAUSE QUERY a; RESUME QUERY a; PAUSE QUERY a",
            ["CreateQuery", "PauseQuery"],
        ),
        ("CREATE QUERY a AS SELECT v FROM s; PAUSE QUERY a; RESUME QUERY a", ["CreateQuery"]),
        # Another query reads it: both statements stay.
        (
            "CREATE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM a; DROP QUERY a",
            ["CreateQuery", "CreateQuery", "DropQuery"],
        ),
        ("SET OBJECTIVES (delay = 1); SET OBJECTIVES (output = 1)", ["SetObjectives"]),
        (
            "CREATE QUERY a AS SELECT v FROM s; DROP QUERY a; CREATE QUERY a AS SELECT k FROM s",
            ["CreateQuery"],
        ),
    ],
)
def test_what_has_no_effect_any_more_is_left_out(text: str, left: list[str]) -> None:
    assert [each.kind for each in compacted(logged(text))] == left


@given(
    st_.lists(
        st_.tuples(st_.sampled_from(["create", "read", "drop", "pause", "resume"]), st_.integers(0, 3)), max_size=14
    )
)
def test_a_compacted_log_has_the_same_effect(steps: list[tuple[str, int]]) -> None:
    whole, short = Catalog(), []
    whole.execute(STREAM)
    for step, number in steps:
        sql = {
            "create": f"CREATE QUERY q{number} AS SELECT v FROM s WHERE v > {number}",
            "read": f"CREATE QUERY q{number} AS SELECT v FROM q{(number + 1) % 4} WHERE v < {number}",
            "drop": f"DROP QUERY q{number}",
            "pause": f"PAUSE QUERY q{number}",
            "resume": f"RESUME QUERY q{number}",
        }[step]
        try:
            whole.execute(sql)
        except ValueError:
            continue
        short = compacted([*short, *logged(sql)])
    again = Catalog()
    again.execute(STREAM)
    for statement in short:
        again.execute(statement.sql)
    assert {n: (q.sql, q.plan.text, q.pause) for n, q in again.queries.items()} == {
        n: (q.sql, q.plan.text, q.pause) for n, q in whole.queries.items()
    }


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    file = CheckpointLogFile(Checkpoint(str(tmp_path / "ck")))
    log = StatementLog(file)
    log.replace(logged(STREAM))
    log.set_policy("chain")
    path = tmp_path / "ck" / "statements.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    again = StatementLog(file)
    assert (again.policy, again.statements) == ("chain", log.statements)
    assert not [each for each in os.listdir(tmp_path / "ck") if each.endswith(".tmp")]


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    class Full(LogInMemory):
        def write(self, data: bytes) -> None:
            raise CheckpointError("no space")

    log = StatementLog(Full())
    with pytest.raises(CheckpointError):
        log.replace(logged(STREAM))
    assert log.statements == []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": 1}', json.dumps({"format": 9}).encode()])
def test_a_damaged_log_is_reported(data: bytes) -> None:
    file = LogInMemory()
    file.data = data
    with pytest.raises(CheckpointError, match=r"statements\.json"):
        StatementLog(file)
