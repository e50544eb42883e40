"""Passwords of a broker that asks for them: they work, and no log, message, `explain` or checkpoint has them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headgate.feeder.broker import Broker
from tests.kafka.topics import Topics

pytestmark = [pytest.mark.slow]

SECRET = "s3cr3t-of-kafka"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def guarded(broker: Broker, tmp_path: Path) -> Iterator[Broker]:
    """A broker that asks for a password. `broker`: the jars are there."""
    del broker
    started = Broker(
        tmp_path / "guarded",
        settings={
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": (
                f'{LOGIN} username="me" password="{SECRET}" user_me="{SECRET}";'
            ),
        },
    )
    started.start()
    yield started
    started.stop()


def _script(topics: Topics, password: str, delivery: str) -> str:
    given = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{LOGIN} username="me" password="{password}";',
    }
    source = topics.options(subscribe="rows", value_format="json", startingOffsets="earliest", **given)
    sink = topics.options(topic="answers", delivery=delivery, **given)
    return f"""CREATE STREAM s (v INT) USING kafka {source};
        CREATE QUERY q INTO kafka {sink} AS SELECT v + 1 AS v FROM s;"""


def _headgate(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate.cli.main", *arguments]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_password_is_used_and_shown_nowhere(guarded: Broker, tmp_path: Path, delivery: str) -> None:
    client = {
        "bootstrap.servers": guarded.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": SECRET,
    }
    producer = Producer(client)
    producer.produce("rows", b'{"v": 41}')
    assert producer.flush(60) == 0
    topics = Topics(guarded.servers, "guarded")
    work = tmp_path / "work"
    work.mkdir()
    (work / "right.sql").write_text(_script(topics, SECRET, delivery))
    (work / "wrong.sql").write_text(_script(topics, "wrong-" + SECRET, delivery))
    done = _headgate("run", "right.sql", "--once", "--checkpoint", "ck", folder=work)
    assert done.returncode == 0, done.stderr
    consumer = Consumer({**client, "group.id": "tests", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("answers", 0, 0)])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b'{"v":42}'
    consumer.close()
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
