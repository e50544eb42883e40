"""Secrets in options are hidden wherever they stand in a text, and may be named instead of written."""

from __future__ import annotations

import pytest

from headgate.connectors.registry import SparkStreams, open_sink
from headgate.graph.secrets import MissingVariable, has_literal, masked, resolved, without_secrets
from headgate.spark.results import SinkError
from headgate.spark.source_rows import SourceError
from tests.connectors.declared import clause, query_into, stream_of

JAAS = 'org.apache.kafka.PlainLoginModule required username="me" password="hunter two";'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"password": "hunter2"}, "FATAL: password hunter2 is wrong"),
        (
            {"url": "jdbc:postgresql://h/db?user=me&password=hunter2"},
            "no host in jdbc:postgresql://h/db?password=hunter2",
        ),
        ({"url": "jdbc:postgresql://h/db?password=hunter2"}, "login with hunter2 failed"),
        ({"url": "jdbc:postgresql://me:hunter2@h/db"}, "cannot reach jdbc:postgresql://me:hunter2@h/db"),
        ({"kafka.sasl.jaas.config": JAAS}, f"Invalid value {JAAS} for sasl.jaas.config"),
        ({"kafka.sasl.jaas.config": JAAS}, 'unknown option password="hunter two" of PlainLoginModule'),
        ({"kafka.ssl.keystore.key": "-----hunter-----"}, "no key: -----hunter-----"),
        ({}, "PASSWORD = 'hunter2' in a text that nobody declared"),
    ],
)
def test_hidden_in_texts(options: dict[str, str], text: str) -> None:
    assert "hunter" not in without_secrets(text, options)
    assert "hunter" not in str(masked(options))
    assert "***" in without_secrets(text, options)


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "hunter2")
    options = {
        "password": "${env:OF_THE_TEST}",
        "url": "x?password=${env:OF_THE_TEST}&a=b",
        "k": "$x {env}",
    }
    assert resolved(options) == {"password": "hunter2", "url": "x?password=hunter2&a=b", "k": "$x {env}"}
    assert not any(has_literal(name, value) for name, value in options.items())
    with pytest.raises(MissingVariable, match=r"^option a names the environment variable NOT_SET_1, which is not set$"):
        resolved({"a": "${env:NOT_SET_1}"})


def test_variables_that_are_not_set_are_told_in_one_line() -> None:
    said = "option password names the environment variable NOT_SET_1, which is not set"
    options = {"url": "jdbc:postgresql://h/db", "table": "t", "password": "${env:NOT_SET_1}"}
    query = query_into("postgresql", clause(options))
    with pytest.raises(SinkError, match=f"^query q: sink postgresql: {said}$"):
        open_sink(None, query, query.sinks[0], "run")
    kafka = {"subscribe": "t", "kafka.bootstrap.servers": "h:1", "kafka.ssl.key.password": "${env:NOT_SET_1}"}
    stream = stream_of("kafka", clause(kafka), "value BINARY")
    with pytest.raises(SourceError, match=r"^stream s: source kafka: option kafka.ssl.key.password names the env"):
        SparkStreams(None).open([stream])
