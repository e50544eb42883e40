"""The Spark session, with the settings that Headgate needs and those that make local mode fast."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headgate.spark import class_archive
from headgate.spark.jvm_warnings import without_warnings
from headgate.spark.local_files import forget_origins, use_local_files
from headgate.spark.packages import LISTS
from headgate.spark.processes import children_with
from headgate.spark.shipping import package_zip, ship_package

_QUIET = Path(__file__).with_name("log4j2.properties")
_ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Starting a Python worker takes longer than the task that it runs.
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
    "spark.ui.showConsoleProgress": "false",
    # An expression that asks for 2 GB (repeat, lpad) or nests too deeply fails its query; by default it ends the JVM.
    "spark.executor.killOnFatalError.depth": "0",
}
# Measured on 2 cores: a foreachBatch trigger takes 204 ms with Spark's defaults and 85 ms with these.
_LOCAL_FILES = {
    # With Hadoop's default, each checkpoint file costs several forked chmods.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_LOCAL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Delta computes the files of a table in so many tasks; by default 50.
    "spark.databricks.delta.snapshotPartitions": "2",
}

_PLACE_OF_GATEWAY = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""A JVM that PySpark starts has this in its environment."""


def local_options() -> str:
    """The options of the JVM in local mode."""
    # Java's default collector runs concurrently, on cores that a trigger needs. Median trigger on 2 cores, after
    # 60 triggers: 140 to 144 ms with it in three runs; in one run each, serial 130 ms and parallel 132 ms.
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
    with _no_jvm_left():
        made = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None, local_files: bool = True
) -> Any:
    """A session on a master, by default local.

    Local mode gets the settings that make it fast. A cluster gets what its executors need: this package, which need not
    be installed there (`shipping.py`). `local_files`: the lane log is in a local or mounted folder; the settings that
    make that fast would keep Hadoop from writing to S3.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = master or "local[*]"
    local = master.startswith("local")
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        here = {**_LOCAL, "spark.driver.extraJavaOptions": f"{local_options()} {class_archive.options()}"}
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        here = _cluster()
    files = _LOCAL_FILES if local_files else {}
    builder = SparkSession.builder.master(master).appName(name)
    given = dict(settings or {})
    for name in LISTS:
        if name in given and (known := user_settings().get(name)):
            given[name] = f"{known},{given[name]}"
    for key, value in {**_ANYWHERE, **files, **here, **given}.items():
        builder = builder.config(key, value)
    with without_warnings(), _no_jvm_left():
        made = builder.getOrCreate()
    forget_origins(made.sparkContext)
    if local_files:
        use_local_files(made.sparkContext)
    if not local:
        python = made.sparkContext.getConf().get("spark.pyspark.python")
        if python:
            # PySpark itself reads only the environment.
            made.sparkContext.pythonExec = python
        ship_package(made)
    return made


@contextmanager
def _no_jvm_left() -> Iterator[None]:
    """Kills a JVM whose start is interrupted (Ctrl-C, SystemExit): PySpark removes the folder in which it would say how
    to reach it, and without that it would run for ever, not even notice that this process ends."""
    try:
        yield
    except BaseException:
        from pyspark import SparkContext

        if SparkContext._gateway is None:
            for pid in children_with(_PLACE_OF_GATEWAY):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        raise


def _cluster() -> dict[str, str]:
    """Settings that add to those in the user's `spark-defaults.conf`."""
    known = user_settings()
    archive = class_archive.options()
    path = "spark.executorEnv.PYTHONPATH"
    driver, executor = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
    return {
        # Spark puts shipped files into the working directory of executors, before it starts Python there: the process
        # that workers are forked from (`daemon.py`) is in the package.
        path: os.pathsep.join(part for part in (package_zip().name, known.get(path)) if part),
        driver: f"{local_options()} {archive} {known.get(driver, '')}".strip(),
        # On a node without the driver's archive, the JVM starts without it.
        **({executor: f"{archive} {known.get(executor, '')}".strip()} if archive else {}),
    }


def user_settings() -> dict[str, str]:
    """The user's settings in `spark-defaults.conf`, which Headgate's would otherwise replace."""
    from pyspark.find_spark_home import _find_spark_home

    folder = os.environ.get("SPARK_CONF_DIR") or f"{_find_spark_home()}/conf"
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.strip().split(None, 1) for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
