"""Whether something outside of a job was lost is decided by classes, never by the text of a row."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.error_causes import causes, in_python, lost, outside
from headgate.spark.host_client import HostLost, HostRefused
from headgate.spark.messages import BLAMED
from headgate.spark.spark_errors import job_error, may_be_catalyst, spark_errors
from headgate.spark.wire import ConnectionLost

TASK = (
    "Job aborted due to stage failure: Task 1 in stage 9.0 failed 4 times, most recent failure: Lost task 1.3 in stage"
    " 9.0 (TID 19) (10.0.0.1 executor 1): "
)
STREAM = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
TRACEBACK = 'org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "x", line 1\n'


@pytest.mark.parametrize(
    "error",
    [
        HostLost("HostLost: the host of replica 0 was lost"),
        ConnectionLost("gone"),
        ConnectionResetError(104, "Connection reset by peer"),
        PySparkException(TASK + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
        PySparkException(STREAM + TASK + "java.net.SocketException: Connection reset\n\tat x"),
        PySparkException(TASK + "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"),
        PySparkException(TASK + TRACEBACK + "headgate.spark.host_client.HostLost: HostLost: it ended"),
        PySparkException(TASK + TRACEBACK + "headgate.spark.processes.Orphaned: Orphaned: Spark's daemon has ended"),
        PySparkException("org.apache.spark.SparkException: x\n\tat y\nCaused by: java.io.EOFException\n\tat z"),
        PySparkException("java.net.SocketTimeoutException: Accept timed out"),
        PySparkException("[CANNOT_OPEN_SOCKET] Can not open socket"),
    ],
)
def test_what_was_lost_may_be_repeated(error: Exception) -> None:
    assert lost(error), causes(error)
    assert EpochFailures.transient(error)


@pytest.mark.parametrize(
    "error",
    [
        PySparkException("[CANNOT_PARSE_TIMESTAMP] Text 'Connection reset by peer' SQLSTATE: 22007"),
        PySparkException("[CANNOT_PARSE_TIMESTAMP] Text 'a\nCaused by: java.io.EOFException'"),
        PySparkException(STREAM + "[CANNOT_PARSE_TIMESTAMP] Text 'ExecutorLost'"),
        PySparkException(TASK + "java.lang.NumberFormatException: Broken pipe, java.io.EOFException, HostLost"),
        PySparkException("[MALFORMED_AVRO_MESSAGE] x\nCaused by: java.io.EOFException"),
        PySparkException(
            TASK + TRACEBACK + "headgate.spark.host_client.HostRefused: x\n"
            "Traceback (most recent call last):\n  y\nheadgate.spark.host_client.HostLost: HostLost: z"
        ),
        HostRefused("error", f"HostLost: {BLAMED}"),
    ],
)
def test_the_text_of_a_row_means_nothing(error: Exception) -> None:
    assert not lost(error), causes(error)
    assert not outside(error)
    assert not EpochFailures.transient(error)
    assert EpochFailures("ck").final(error) is not None


@pytest.mark.spark
@pytest.mark.parametrize(
    "row",
    [
        "Connection reset by peer",
        f"HostLost: {BLAMED}",
        "org.apache.spark.api.python.PythonException: No space left on device",
        "x\nCaused by: java.io.IOException: No space left on device\n\tat java.io.EOFException\n",
    ],
)
@pytest.mark.parametrize(
    "expression",
    ["to_timestamp(x, 'd MMMM yyyy')", "java_method('java.lang.Integer', 'parseInt', x)", "raise_error(x)"],
)
def test_an_expression_that_quotes_a_row_is_the_reason(spark: Any, row: str, expression: str) -> None:
    frame = spark.createDataFrame([(row,)], "x STRING").selectExpr(f"{expression} AS y")
    error = job_error(frame)
    assert error is not None
    assert may_be_catalyst(error)
    assert not EpochFailures.transient(error)
    with pytest.raises(spark_errors()) as raised:
        frame._jdf.queryExecution().toRdd().count()
    assert may_be_catalyst(raised.value)
    assert not EpochFailures.transient(raised.value)


@pytest.mark.spark
def test_a_worker_that_ends_is_lost(spark: Any) -> None:
    def end(batches: Any) -> Any:
        import os

        os._exit(3)
        yield from batches

    def lose(batches: Any) -> Any:
        from headgate.spark.host_client import HostLost

        yield from list(batches)[:0]
        raise HostLost("HostLost: it ended")

    for function in (end, lose):
        with pytest.raises(spark_errors()) as raised:
            spark.range(1).mapInArrow(function, "a STRING").collect()
        assert EpochFailures.transient(raised.value)
        assert in_python(raised.value) == (function is lose)
