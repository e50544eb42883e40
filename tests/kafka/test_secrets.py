"""Passwords of a broker that asks for them: they work, and no log, message, `explain` or checkpoint has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.feeder.broker import Broker
from tests.kafka.logins import SECRET, Login
from tests.kafka.topics import Topics

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def _script(topics: Topics, password: str, delivery: str) -> str:
    given = Login(password=password).options
    source = topics.options(subscribe=topics.name("rows"), value_format="json", startingOffsets="earliest", **given)
    sink = topics.options(topic=topics.name("answers"), delivery=delivery, **given)
    return f"""CREATE STREAM s (v INT) USING kafka {source};
        CREATE QUERY q INTO kafka {sink} AS SELECT v + 1 AS v FROM s;"""


def _headgate(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate.cli.main", *arguments]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_password_is_used_and_shown_nowhere(guarded: Broker, tmp_path: Path, delivery: str) -> None:
    topics = Topics(guarded.servers, f"secrets-{delivery}", Login().client)
    topics.send("rows", [{"v": 41}])
    work = tmp_path / "work"
    work.mkdir()
    (work / "right.sql").write_text(_script(topics, SECRET, delivery))
    (work / "wrong.sql").write_text(_script(topics, "wrong-" + SECRET, delivery))
    done = _headgate("run", "right.sql", "--once", "--checkpoint", "ck", folder=work)
    assert done.returncode == 0, done.stderr
    assert "headgate: the state is in ck; it is complete: give another folder to start over" in done.stdout
    assert [message.value for message in topics.read("answers")] == ['{"v":42}']
    refused = _headgate("run", "wrong.sql", "--once", folder=work)
    assert refused.returncode == 1
    said = [line.partition(" (after")[0] for line in refused.stderr.splitlines()]
    assert said == [
        "query q: sink kafka: SASL authentication error: Authentication failed: Invalid username or password"
    ]
    shown = [_headgate("explain", "right.sql", *more, folder=work) for more in ((), ("--format", "json"))]
    shown += [_headgate("check", "right.sql", folder=work)]
    for each in (done, refused, *shown):
        assert SECRET not in each.stdout + each.stderr
    scripts = {work / "right.sql", work / "wrong.sql"}
    files = [file for file in work.rglob("*") if file.is_file() and file not in scripts]
    assert any(file.parts[-2] == "commits" for file in files)
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
