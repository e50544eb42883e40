"""The Spark session, with the settings that make local mode fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

# Measured on 2 cores: a foreachBatch trigger takes 204 ms with Spark's defaults and 85 ms with these.
_LOCAL = {
    # TCP to the Python worker stalls 40 ms a task on delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # Each checkpoint file otherwise costs several forked chmods.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def local_session(name: str, settings: Mapping[str, str] | None = None) -> Any:
    """A session in this process, on all cores. `settings` override ours."""
    from pyspark.sql import SparkSession

    # Workers must be this Python: another one would lack our package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName(name)
    for key, value in {**_LOCAL, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
