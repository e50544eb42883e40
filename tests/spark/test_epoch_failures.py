"""What is said of an epoch that failed for good: one line, without secrets."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.source_rows import SourceError

STREAM = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
            "Kafka does not answer; nothing is lost: start again when it is back",
        ),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
            "a topic is gone from Kafka; nothing is lost: start again when it is back",
        ),
    ],
)
def test_kafka_that_is_lost(raised: str, said: str) -> None:
    error = RuntimeError(f"{STREAM}something\n=== Streaming Query ===\n\tat x\nCaused by: {raised}\n\tat y")
    found = EpochFailures("ck").final(error)
    assert isinstance(found, SourceError)
    assert str(found) == said


def test_secrets_are_hidden() -> None:
    error = RuntimeError(f'{STREAM}\njava.lang.IllegalArgumentException: wrong value: login password="hunter2" x')
    assert str(EpochFailures("ck").final(error)) == "wrong value: login password=*** x"


def test_a_host_that_is_lost_again_and_again_is_named() -> None:
    failures = EpochFailures("ck")
    error = PySparkException(
        f"{STREAM}Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task"
        " 0.0 in stage 1.0 (TID 7) (localhost executor driver): org.apache.spark.api.python.PythonException: Traceback"
        ' (most recent call last):\n  File "task.py", line 130, in call\n'
        "headgate.spark.host_client.HostLost: HostLost: the host of replica 1 was lost: it was killed\n\n\tat x"
    )
    for _ in range(5):
        assert failures.final(error) is None
    assert str(failures.final(error)).startswith("the host of replica 1 was lost: it was killed; it was lost 6 times")
