"""Libraries for the JVM: which version is taken, what is in the cache, and what is said where they cannot be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest

from headgate.connectors.registry import SparkStreams, open_sink, open_table
from headgate.graph.queries import Table
from headgate.spark.packages import DELTA, ICEBERG, KAFKA, Library, Package, PackageError, at_start, fetched
from headgate.spark.results import SinkError
from headgate.spark.source_rows import SourceError
from tests.connectors.declared import query_into, stream_of
from tests.connectors.recorder import Context

VERSIONS = "<metadata><versioning><versions>{}</versions></versioning></metadata>"
# Stands for Maven: it has the libraries lib and lib_0. LATEST brings the list of versions; of these it has 1.4.0 and
# 2.0.1.
MAVEN = """#!/bin/sh
for each; do case $each in
  -Dmaven.repo.local=*) repository=${{each#*=}} ;;
  -Dartifact=*) version=${{each##*:}}; name=${{each%:*}}; name=${{name#*:}} ;;
esac; done
place="$repository/org/example/$name"
case $name in
  lib|lib_0) ;;
  *) echo "[ERROR] $name is not there -> [Help 1]"; exit 1 ;;
esac
case $version in
  LATEST) mkdir -p "$place"; echo '{versions}' > "$place/maven-metadata-central.xml" ;;
  1.4.0|2.0.1) mkdir -p "$place/$version"; echo jar > "$place/$version/$name-$version.jar" ;;
  *) echo "[ERROR] lib $version is not there -> [Help 1]"; exit 1 ;;
esac
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache and a PATH without Maven."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setattr(
        "shutil.which", lambda name: str(found) if (found := tmp_path / "bin" / name).exists() else None
    )
    return tmp_path


def _install_maven(home: Path) -> None:
    (home / "bin").mkdir()
    listed = "".join(f"<version>{v}</version>" for v in ("1.2.0", "1.4.0", "1.4.1", "1.10.0-preview1", "2.0.1"))
    (home / "bin" / "mvn").write_text(MAVEN.format(versions=VERSIONS.format(listed)))
    (home / "bin" / "mvn").chmod(0o755)


@pytest.mark.parametrize(
    ("series", "at_most", "jar"),
    [("1.", "", "lib-1.4.0.jar"), ("2.", "2.0.1", "lib-2.0.1.jar"), ("1.", "1.4.0", "lib-1.4.0.jar")],
)
def test_the_newest_version_that_can_be_had(home: Path, series: str, at_most: str, jar: str) -> None:
    _install_maven(home)
    package = Package("example", (Library("org.example", "lib", series, at_most),))
    assert [path.name for path in fetched(package)] == [jar]
    (home / "bin" / "mvn").unlink()
    assert [path.name for path in fetched(package)] == [jar], "from the cache"


def test_libraries_of_one_version(home: Path) -> None:
    _install_maven(home)
    libraries = (Library("org.example", "lib", "1."), Library("org.example", "lib_0", "2."))
    assert [path.name for path in fetched(Package("free", libraries))] == ["lib-1.4.0.jar", "lib_0-2.0.1.jar"]
    same = fetched(Package("same", libraries, one_version=True))
    assert [path.name for path in same] == ["lib-1.4.0.jar", "lib_0-1.4.0.jar"]


def test_a_library_for_earlier_versions_of_spark(home: Path) -> None:
    _install_maven(home)
    package = Package("example", (Library("org.example", "lib_{minor}", "1."),))
    with pytest.raises(PackageError, match=r"^example is not published for Spark .*, but for Spark 4.0: pip install"):
        fetched(package)


def test_settings_of_a_package_are_given_at_the_start(home: Path) -> None:
    assert at_start({DELTA}) == {}
    DELTA.folder().mkdir(parents=True)
    (DELTA.folder() / "delta.jar").touch()
    assert at_start({DELTA}) == {"spark.jars": str(DELTA.folder() / "delta.jar"), **dict(DELTA.settings)}
    ICEBERG.folder().mkdir(parents=True)
    (ICEBERG.folder() / "iceberg.jar").touch()
    both = at_start({DELTA, ICEBERG})
    assert both["spark.jars"].split(",") == [str(DELTA.folder() / "delta.jar"), str(ICEBERG.folder() / "iceberg.jar")]
    assert both["spark.sql.extensions"].split(",") == [
        dict(each.settings)["spark.sql.extensions"] for each in (DELTA, ICEBERG)
    ]
    own = {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,org.example.Other"}
    assert at_start({DELTA}, own) == {}, "the user's settings have it"


def test_a_library_that_cannot_be_had(home: Path) -> None:
    package = Package("example", (Library("org.example", "lib", "1.2"),))
    folder = home / "cache" / "headgate" / "jars" / f"example-{pyspark.__version__}"
    with pytest.raises(
        PackageError, match=r"^there is no Maven \(mvn\) to fetch it; put the jars of org.example:lib:1.2x"
    ):
        fetched(package)
    _install_maven(home)
    with pytest.raises(PackageError, match=f"lib 1.2.0 is not there; put the jars of .* into {folder}, or start Spark"):
        fetched(package)
    assert not folder.exists()


class _Without:
    """A session that does not have a data source."""

    def __init__(self) -> None:
        self.sparkContext = Context()

    @property
    def read(self) -> Any:
        return self

    def format(self, name: str) -> Any:
        return self

    def load(self) -> None:
        raise ValueError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka")


def test_a_connector_that_cannot_be_had_is_one_line(home: Path) -> None:
    options = "OPTIONS (subscribe 't', kafka.bootstrap.servers 'h:1')"
    with pytest.raises(SourceError, match=r"^stream s: Spark has no source kafka: there is no Maven .* --jars$"):
        SparkStreams(_Without()).open([stream_of("kafka", options, "value BINARY")])
    query = query_into("kafka", "OPTIONS (topic 't', kafka.bootstrap.servers 'h:1', value_format 'avro')")
    with pytest.raises(SinkError, match=r"^query q: Spark has no sink kafka: there is no Maven .* --jars$"):
        open_sink(_Without(), query, query.sinks[0], "run")
    assert str(KAFKA.folder()).startswith(str(home))


@pytest.mark.parametrize("title", ["Delta", "Iceberg"])
def test_a_format_that_cannot_be_had_is_one_line(home: Path, title: str) -> None:
    name = title.lower()
    options = "OPTIONS (path 'x')"
    query = query_into(name, options)
    with pytest.raises(SinkError, match=rf"^query q: sink {name}: {title} cannot be had: there is no Maven .* --jars$"):
        open_sink(_Without(), query, query.sinks[0], "run")
    with pytest.raises(SourceError, match=rf"^stream s: source {name}: {title} cannot be had: there is no Maven"):
        SparkStreams(_Without()).open([stream_of(name, options, "k INT")])
    table = Table("t", query.schema, name, {"path": "x"})
    with pytest.raises(SourceError, match=rf"^table t: source {name}: {title} cannot be had: there is no Maven"):
        open_table(_Without(), table)
