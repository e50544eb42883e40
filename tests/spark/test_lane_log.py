"""Where Spark's log of the lanes is: folders that Spark has no file system for are refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.lane_log import LaneLog, open_lane_log

pytestmark = pytest.mark.spark

SECRET = "s3cr3t"
HERE = "to write its log of the lanes to; give a folder of the driver's machine"


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (
            f"s3://me:{SECRET}@bucket/log?region=x",
            "--lane-log s3://bucket/log?region=x (in Python lane_log=…): Spark has no s3a:// ",
        ),
        ("s3a://bucket/log", "--lane-log s3a://bucket/log (in Python lane_log=…): Spark has no s3a:// "),
        ("nosuch://host/log", "--lane-log nosuch://host/log (in Python lane_log=…): Spark has no nosuch:// "),
    ],
)
def test_a_folder_that_spark_cannot_open(spark: Any, tmp_path: Path, folder: str, said: str) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark, lane_log=folder)
    engine.execute(f"CREATE STREAM s (v INT) USING json OPTIONS (path '{tmp_path}')")
    engine.query("q", "SELECT v FROM s")
    with pytest.raises(CheckpointError) as error:
        engine.start()
    message = str(error.value)
    assert message.startswith(said)
    assert HERE in message
    assert ("or let Spark load org.apache.hadoop:hadoop-aws:" in message) == folder.startswith("s3")
    assert "\n" not in message
    assert SECRET not in message


def test_folders_that_spark_can_open(spark: Any, tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "ck"))
    for folder, wanted in (
        (None, f"{tmp_path}/ck/lanes"),
        (f"{tmp_path}/log", f"{tmp_path}/log/run"),
        (f"file://{tmp_path}/log", f"file://{tmp_path}/log/run"),
    ):
        assert open_lane_log(spark, checkpoint, folder, "run").folder == wanted


def test_a_log_that_cannot_be_read(spark: Any) -> None:
    said = r"^checkpoint ck: Spark cannot read its log of the lanes in nosuch://host/log: .*nosuch[^\n]*$"
    with pytest.raises(CheckpointError, match=said):
        LaneLog(spark, "nosuch://host/log").check("ck", {"main": 3})
