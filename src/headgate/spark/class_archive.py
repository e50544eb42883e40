"""Spark's classes as an archive that the JVM maps instead of loading and verifying them one by one.

A Spark session starts in about half the time with it. An archive fits one JVM and one installation of Spark; it is in
the user's cache folder, `$XDG_CACHE_HOME/headgate` or `~/.cache/headgate`, and takes about 190 MB. The first process
that does not find it makes it when it ends: a background process with the lowest priority starts a Spark session, runs
what an engine runs, and gives the archive its name once it is complete. `python -m headgate.spark.class_archive` makes
it at once. If it cannot be made or read, Spark starts without it. `HEADGATE_CLASS_ARCHIVE=off` disables it.

A file beside the archive has its size: the JVM crashes on an archive that was cut off, by a full disk for example.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

SWITCH = "HEADGATE_CLASS_ARCHIVE"
# The JVM silently ignores an archive that does not fit.
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_LIMIT = 300.0
"""Timeout (s) of an attempt to make the archive; after it, another attempt may begin."""
_UNUSED = 30 * 86400.0
"""Seconds after which an archive that no session has used is removed."""
_OTHERS = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "PYSPARK_SUBMIT_ARGS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_ENDING, _SIZE = ".jsa", ".size"
_NEEDED = 600 << 20
"""Free disk space (bytes) that is required: a new archive is written beside the existing ones."""


def options() -> str:
    """JVM options that use the archive; empty if there is none. A missing archive is made when this process ends."""
    try:
        path = archive()
        if path is None:
            return ""
        if complete(path):
            # Marks it as recently used.
            with suppress(OSError):
                os.utime(path)
            return f"-XX:SharedArchiveFile={path} {_QUIET}"
        _make_at_exit()
    except OSError:
        pass
    return ""


def archive() -> Path | None:
    """Where the archive for this JVM and this Spark is, or will be; None if there can be none."""
    java = _java()
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "false", "no") or java is None:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home, "headgate")
    # JVM options are separated by spaces.
    return None if not folder.is_absolute() or " " in str(folder) else folder / f"spark-{_key(java)}{_ENDING}"


def complete(path: Path) -> bool:
    """Whether the archive exists and has its whole size."""
    try:
        return path.stat().st_size == int(path.with_suffix(_SIZE).read_text())
    except (OSError, ValueError):
        return False


def make(wait: bool = False) -> bool:
    """Makes the archive unless it exists; returns whether it exists afterwards. If several processes try at once, one
    makes it; with `wait` the others wait for it."""
    path = archive()
    if path is None:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + _LIMIT
        while not complete(path):
            claim = path.with_suffix(".claim")
            if _claim(claim):
                try:
                    if shutil.disk_usage(path.parent).free > _NEEDED:
                        _write(path)
                        path.with_suffix(_SIZE).write_text(str(path.stat().st_size))
                        _remove_unused(path.parent)
                finally:
                    claim.unlink(missing_ok=True)
                break
            if not wait or time.monotonic() > until:
                break
            time.sleep(0.2)
        return complete(path)
    except OSError:
        return False


@cache
def _make_at_exit() -> None:
    atexit.register(_start_maker)


def _start_maker() -> None:
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-c", "import os; from headgate.spark.class_archive import make; os.nice(19); make()"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _claim(path: Path) -> bool:
    """Whether this process is the one that makes the archive. An old claim was left by a killed process."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _LIMIT:
            path.unlink()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _write(path: Path) -> None:
    """Runs Spark once in another process, whose JVM writes the archive when it ends."""
    # An archive made with the user's JVM options may not fit other sessions.
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS} | {SWITCH: "off"}
    with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent) as folder:
        made = Path(folder, path.name)
        program = f"from headgate.spark.class_archive import _exercise; _exercise({str(made)!r})"
        code = _run([sys.executable, "-c", program], Path(folder), environment, _LIMIT)
        if code == 0 and made.exists():
            made.rename(path)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float) -> int | None:
    """Runs a command silently and returns its exit code; None if it takes longer than `limit` seconds.

    If the time is over, or if this process is interrupted meanwhile (Ctrl-C, SystemExit), the command is killed
    together with the processes that it has started.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit)
    except BaseException as error:
        # Not reaped yet: the group is still that of the command.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise


def _exercise(made: str) -> None:
    """Starts Spark, does what an engine does, and ends the JVM, which writes its classes to `made`."""
    from pyspark import SparkContext

    from headgate.spark.session import local_options, local_session

    java = f"{local_options()} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = local_session("headgate-class-archive", {"spark.driver.extraJavaOptions": java})
    folder = os.path.dirname(made)
    for format_ in ("json", "parquet"):
        rows = spark.range(10).selectExpr("id AS a", "CAST(id AS STRING) AS b", "current_timestamp() AS c")
        rows.write.format(format_).save(f"{folder}/{format_}")
    frames = [
        spark.readStream.schema("a LONG, b STRING, c TIMESTAMP")
        .format(format_)
        .load(f"{folder}/{format_}")
        .selectExpr("CAST(0 AS SMALLINT) AS stream", "CAST(a + 1 AS BIGINT) AS a", "upper(b) AS b", "c", "_metadata")
        .drop("_metadata")
        for format_ in ("json", "parquet")
    ]
    union = frames[0].unionByName(frames[1]).coalesce(1).mapInArrow(_same, "a LONG, b STRING")
    writer = union.writeStream.option("checkpointLocation", f"{folder}/checkpoint").foreachBatch(_collect)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    gateway: Any = SparkContext._gateway
    process = gateway.proc
    process.stdin.close()
    if process.wait():
        raise RuntimeError("the JVM did not end well")


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.select(["a", "b"])


def _collect(frame: Any, batch: int) -> None:
    frame.collect()
    frame.sparkSession.createDataFrame(frame.toArrow()).count()


def _java() -> Path | None:
    """The Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return None if found is None or not os.path.exists(found) else Path(found).resolve()


def _key(java: Path) -> str:
    """A name for the JVM and the installation of Spark, as far as an archive depends on them."""
    from pyspark.find_spark_home import _find_spark_home

    spark = Path(_find_spark_home())
    parts: list[object] = [
        os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH")
    ]
    for path in (java, java.parent.parent / "lib/modules", *sorted((spark / "jars").glob("*.jar"))):
        with suppress(OSError):
            found = path.stat()
            parts.append((str(path), found.st_size, found.st_mtime_ns))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _remove_unused(folder: Path) -> None:
    for path in folder.glob(f"spark-*{_ENDING}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNUSED:
                path.unlink()
                path.with_suffix(_SIZE).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(0 if make(wait=True) else 1)
