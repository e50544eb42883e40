"""Where Spark keeps its own logs of the lanes: below the checkpoint, or in another folder if Spark cannot write there.

Spark writes them through Hadoop, which reads object stores only with a library that Spark does not include. Only the
driver reads and writes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headgate.graph.secrets import hidden
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.spark_errors import reason, spark_errors
from headgate.spark.storage import below, without_secrets

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_AWS = "org.apache.hadoop:hadoop-aws"
_SCHEMES = {
    "s3": ("s3a", _S3A, _AWS),
    "s3a": ("s3a", _S3A, _AWS),
    "gs": ("gs", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", ""),
    "gcs": ("gs", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", ""),
}
"""Object stores by the scheme of their URI, for `pyarrow.fs` or Hadoop: Hadoop's scheme, its class, and the package to
load."""


class LaneLog:
    """The folder of Spark's logs, one folder a lane, as a path or a URI that Hadoop opens."""

    def __init__(self, spark: Any, folder: str) -> None:
        self._spark = spark
        self.folder = folder

    def place(self, lane: str) -> str:
        """Where the log of a lane is."""
        return below(self.folder, lane)

    def check(self, name: str, lanes: Mapping[str, int]) -> None:
        """CheckpointError if the log of a lane does not contain the last batch that is committed.

        Spark would begin with batch 0 again, and its rows would be taken for those of the committed batch 0. `name` is
        the checkpoint's, `lanes` the last committed batch of each lane.
        """
        for lane, batch in lanes.items():
            try:
                found = self._exists(f"{self.place(lane)}/offsets/{batch}")
            except spark_errors() as error:
                raise CheckpointError(
                    f"checkpoint {name}: Spark cannot read its log of the lanes in {without_secrets(self.folder)}:"
                    f" {hidden(reason(error))}"
                ) from error
            if not found:
                raise CheckpointError(
                    f"checkpoint {name}: Spark's log of lane {lane} in {without_secrets(self.folder)} does not contain"
                    f" batch {batch}, which is committed; restore the log from a copy (with --lane-log, give the folder"
                    " that it was in), or give a new checkpoint folder to start over from the sources"
                )

    def _exists(self, path: str) -> bool:
        if "://" not in path:
            return os.path.exists(path)
        context = self._spark.sparkContext
        found = context._jvm.org.apache.hadoop.fs.Path(path)
        return bool(found.getFileSystem(context._jsc.hadoopConfiguration()).exists(found))


def open_lane_log(spark: Any, checkpoint: Checkpoint, folder: str | None, run: str) -> LaneLog:
    """The lane log of a checkpoint; `folder` is the user's choice, if any, `run` the identity of the checkpoint.

    CheckpointError if Spark has no file system for it: for the folder, or below the checkpoint.
    """
    if folder is not None:
        if "://" in folder:
            option = f"--lane-log {without_secrets(folder)} (in Python lane_log=…)"
            folder = _for_hadoop(spark, folder, option, "give a folder of the driver's machine")
        # The run is part of the path: one folder may serve several checkpoints, whose logs must not be confused.
        return LaneLog(spark, below(folder if "://" in folder else os.path.abspath(folder), run))
    if "://" not in checkpoint.uri:
        return LaneLog(spark, below(checkpoint.uri, "lanes"))
    instead = "give a folder for it with --lane-log DIR (in Python lane_log=…)"
    return LaneLog(spark, below(_for_hadoop(spark, checkpoint.uri, f"checkpoint {checkpoint.name}", instead), "lanes"))


def _for_hadoop(spark: Any, uri: str, subject: str, instead: str) -> str:
    """The URI by which Hadoop opens a folder. CheckpointError about the `subject` if Spark has no file system for it;
    `instead` says what to do then."""
    parts = urlsplit(uri)
    scheme, class_, package = _SCHEMES.get(parts.scheme, (parts.scheme, "", ""))
    if not (_has_class(spark, class_) if class_ else _has_file_system(spark, scheme)):
        library = ""
        if package:
            version = spark.sparkContext._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            library = f", or let Spark load {package}:{version}"
        said = f"Spark has no {scheme}:// to write its log of the lanes to; {instead}{library}"
        raise CheckpointError(f"{subject}: {said}")
    if class_ == _S3A:
        _configure_s3a(spark, uri)
    return f"{scheme}://{parts.hostname}{parts.path}" if class_ else uri


def _has_file_system(spark: Any, scheme: str) -> bool:
    context = spark.sparkContext
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
        return True
    except spark_errors():
        return False


def _has_class(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        spark.sparkContext._jvm.org.apache.spark.util.Utils.classForName(name, True, False)
        return True
    except Py4JJavaError:
        return False


def _configure_s3a(spark: Any, uri: str) -> None:
    """Lets Hadoop reach the bucket as `pyarrow.fs` does, unless the user has configured it."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in s3a_settings(uri).items():
        if not configuration.get(key):
            configuration.set(key, value)


def s3a_settings(uri: str) -> dict[str, str]:
    """Hadoop's settings for the bucket of a URI with the options of `pyarrow.fs`.

    >>> s3a_settings("s3://k:s@b/p?endpoint_override=localhost:9000&scheme=http&region=eu-west-1")
    ... # doctest: +NORMALIZE_WHITESPACE
    {'fs.s3a.bucket.b.access.key': 'k', 'fs.s3a.bucket.b.secret.key': 's',
     'fs.s3a.bucket.b.endpoint.region': 'eu-west-1', 'fs.s3a.bucket.b.endpoint': 'http://localhost:9000',
     'fs.s3a.bucket.b.path.style.access': 'true'}
    """
    parts = urlsplit(uri)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    found: dict[str, str] = {}
    if parts.username is not None and parts.password is not None:
        found |= {"access.key": unquote(parts.username), "secret.key": unquote(parts.password)}
    if "region" in options:
        found["endpoint.region"] = options["region"]
    if "endpoint_override" in options:
        endpoint = options["endpoint_override"]
        found["endpoint"] = endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"
        found["path.style.access"] = "true"
    return {f"fs.s3a.bucket.{parts.hostname}.{key}": value for key, value in found.items()}
