"""The Spark session, with the settings that Headgate needs and those that make local mode fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.spark import class_archive

_QUIET = Path(__file__).with_name("log4j2.properties")
_ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # The network lives in a Python worker from one epoch to the next.
    "spark.python.worker.reuse": "true",
    # A limit in rows only: with a limit in bytes Spark sums the batch at every row, a third of the cost of a transfer.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Spark's log of the files that it has read is written whole at every compaction, and the old ones are kept for ten
    # minutes: 69 MB after 7 minutes with three triggers a second. The engine's commits need the last batch only.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "10s",
    "spark.sql.streaming.fileSource.log.compactInterval": "30",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # TCP to the Python worker stalls 40 ms a task on delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "headgate.spark.daemon",
    # Planning the stages of a shuffle one by one gains nothing where the number of partitions is given.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # How long a lane sleeps between two polls; Spark's default is 10 ms.
    "spark.sql.streaming.pollingDelayMs": "2",
    # An expression that asks for 2 GB (repeat, lpad) or nests too deeply fails its query; by default it ends the JVM.
    "spark.executor.killOnFatalError.depth": "0",
}
# Measured on 2 cores: a foreachBatch trigger takes 204 ms with Spark's defaults and 85 ms with these.
_LOCAL = {
    # With Hadoop's default, each checkpoint file costs several forked chmods.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def local_options() -> str:
    """The options of the JVM in local mode."""
    # Java's default collector works beside the program, on cores that a trigger needs: with a small heap on 2 cores a
    # trigger takes 180 to 220 ms with it when the JVM is young and 144 ms later, with this one 180 and 130 ms.
    collector = "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= 2 else "-XX:+UseParallelGC"
    # Without the log's configuration the JVM prints a page of warnings before a log level can be set.
    return f"{collector} -Dlog4j2.configurationFile={_QUIET.as_uri()}"


def local_session(name: str, settings: Mapping[str, str] | None = None) -> Any:
    """A session in this process, on all cores. `settings` override ours."""
    return session(name, "local[*]", settings)


def untuned_session(name: str) -> Any:
    """A local session with Spark's defaults, for comparisons in benches; only the 200 shuffle partitions are fewer, as
    is usual on a few cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName(name).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    made = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """A session on a master, by default local. The settings that make local mode fast are used only there."""
    from pyspark.sql import SparkSession

    # Workers must use this Python: another one would lack our package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = master or "local[*]"
    if master.startswith("local"):
        here = {**_LOCAL, "spark.driver.extraJavaOptions": f"{local_options()} {class_archive.options()}"}
    else:
        # Executors on nodes with the same files find this package where the driver has it.
        here = {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2])}
    chosen = {**_ANYWHERE, **here, **(settings or {})}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
