"""JVM libraries that Spark does not include: fetched by Maven once, kept in a cache, added to a running session.

The cache is `$XDG_CACHE_HOME/headgate/jars` or `~/.cache/headgate/jars`: a folder for each package and version of
Spark. Without Maven, the jars can be put into that folder by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

_SCALA = "2.13"
_LIMIT = 600.0
"""Seconds that one run of Maven may take."""
_ATTEMPTS = 5
"""Versions to try, newest first: a repository may list versions that it does not have."""
_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>headgate</groupId><artifactId>jars</artifactId>
<version>1</version><dependencies><dependency>{}</dependency></dependencies></project>"""


class PackageError(ValueError):
    """A library is not available; the message says where to put it."""


@dataclass(frozen=True)
class Library:
    """A library by its coordinates. Its version is the newest that begins with `series` and is not newer than
    `at_most`, since not every library is published for every version of Spark.

    `{spark}` stands for the version of Spark, `{major}` and `{minor}` for its parts, `{scala}` for that of Scala.
    """

    group: str
    artifact: str
    series: str
    at_most: str = ""

    def filled(self, spark: str) -> Library:
        """The library for a version of Spark."""
        major, minor = spark.split(".")[:2]
        fill = {"spark": spark, "major": major, "minor": minor, "scala": _SCALA}
        return Library(*(text.format(**fill) for text in (self.group, self.artifact, self.series, self.at_most)))

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.series}x" + (f" up to {self.at_most}" if self.at_most else "")


@dataclass(frozen=True)
class Package:
    """Libraries that belong together. If they contain a data source, `name` is the name of that source.

    - `alone`: without their dependencies, which Spark has
    - `one_version`: all libraries have the version of the first
    - `settings`: settings of a session that uses it, which must be given at its start
    """

    name: str
    libraries: tuple[Library, ...]
    alone: bool = True
    one_version: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def folder(self) -> Path:
        """Where the jars are, or will be."""
        return cache() / "jars" / f"{self.name}-{_spark_version()}"

    def jars(self) -> list[Path]:
        """The jars in the cache; empty if they were not fetched."""
        return sorted(self.folder().glob("*.jar"))

    def hint(self) -> str:
        """What to do if Maven cannot fetch it."""
        named = ", ".join(str(library.filled(_spark_version())) for library in self.libraries)
        return f"put the jars of {named} into {self.folder()}, or start Spark with --jars"


KAFKA = Package(
    "kafka",
    (
        Library("org.apache.spark", "spark-sql-kafka-0-10_{scala}", "{major}.", "{spark}"),
        Library("org.apache.spark", "spark-token-provider-kafka-0-10_{scala}", "{major}.", "{spark}"),
        Library("org.apache.kafka", "kafka-clients", "3.9."),
        Library("org.apache.commons", "commons-pool2", "2."),
    ),
)
AVRO = Package("avro", (Library("org.apache.spark", "spark-avro_{scala}", "{major}.", "{spark}"),))
KAFKA_BROKER = Package("kafka-broker", (Library("org.apache.kafka", "kafka_{scala}", "3.9."),), alone=False)
POSTGRESQL = Package("postgresql", (Library("org.postgresql", "postgresql", "42."),))
DELTA = Package(
    "delta",
    (
        Library("io.delta", "delta-spark_{major}.{minor}_{scala}", "4."),
        Library("io.delta", "delta-storage", "4."),
        Library("io.delta", "delta-kernel-api", "4."),
        Library("io.delta", "delta-kernel-defaults", "4."),
    ),
    one_version=True,
    settings=(
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    ),
)
ICEBERG = Package(
    "iceberg",
    (Library("org.apache.iceberg", "iceberg-spark-runtime-{major}.{minor}_{scala}", "1."),),
    settings=(("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),),
)

_NAMED = {
    r"\bkafka\b": KAFKA,
    r"\bavro\b": AVRO,
    r"\b(into|using)\s+[`\"]?delta\b|\bformat\W+delta\b": DELTA,
    r"\b(into|using)\s+[`\"]?iceberg\b|\bformat\W+iceberg\b": ICEBERG,
}
"""Packages of data sources by a pattern of the text that names them in a script."""
LISTS = ("spark.jars", "spark.sql.extensions")
"""Settings whose values are lists, to which a package adds."""


def named_in(text: str) -> set[Package]:
    """The packages that a script may need, by its words.

    >>> [sorted(package.name for package in named_in(text)) for text in ("SELECT delta FROM s", "USING Delta", "kafka")]
    [[], ['delta'], ['kafka']]
    """
    return {package for pattern, package in _NAMED.items() if re.search(f"(?i){pattern}", text)}


def at_start(packages: Iterable[Package], known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Settings that give a session packages from its start; a package that is not available is reported when used.

    `known` are the user's settings: a package that they configure is left to them.

    Only then do errors raised by classes of a package reach the driver: the threads that receive the results of tasks
    do not see a package that is added later.
    """
    settings: dict[str, str] = {}
    for package in sorted(packages, key=lambda each: each.name):
        extensions = [value for name, value in package.settings if name in LISTS]
        if extensions and set(extensions) <= set(re.split(r"\s*,\s*", known.get("spark.sql.extensions", ""))):
            continue
        with suppress(PackageError):
            jars = ("spark.jars", ",".join(map(str, fetched(package))))
            for name, value in (jars, *package.settings):
                settings[name] = f"{settings[name]},{value}" if name in LISTS and name in settings else value
    return settings


def cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "headgate")


def fetched(package: Package) -> list[Path]:
    """The jars of a package; fetched if they are not in the cache. PackageError if they are not available."""
    found = package.jars()
    if found:
        return found
    program = shutil.which("mvn")
    if program is None:
        raise PackageError(f"there is no Maven (mvn) to fetch it; {package.hint()}")
    folder = package.folder()
    print(f"headgate: fetching {package.name} for Spark {_spark_version()} into {folder}", file=sys.stderr, flush=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{package.name}-") as work:
            maven = _Maven(program, cache() / "maven", Path(work))
            version: str | None = None
            for library in package.libraries:
                found_version = maven.fetch(library.filled(_spark_version()), package.alone, version)
                version = found_version if package.one_version else None
            try:
                (maven.work / "jars").rename(folder)
            except OSError:
                # Another process was faster.
                if not package.jars():
                    raise
    except OSError as error:
        raise PackageError(f"{folder} cannot be written: {error.strerror or error}; {package.hint()}") from error
    except (subprocess.TimeoutExpired, _NotFound) as error:
        earlier = _published(program, package.libraries[0]) if isinstance(error, _NoVersions) else None
        if earlier is not None:
            raise PackageError(
                f"{package.name} is not published for Spark {_spark_version()}, but for Spark {earlier}:"
                f" pip install 'pyspark=={earlier}.*'"
            ) from error
        raise PackageError(f"Maven cannot fetch it: {error}; {package.hint()}") from error
    return package.jars()


class _NotFound(Exception):
    """Maven cannot provide a library."""


class _NoVersions(_NotFound):
    """No version of a library is published, or it is not known which."""


def _published(program: str, library: Library) -> str | None:
    """The newest earlier version of Spark, as 4.2, that a library is published for; None if it has no such versions."""
    if "{minor}" not in library.artifact:
        return None
    major, minor = _spark_version().split(".")[:2]
    with tempfile.TemporaryDirectory() as work:
        maven = _Maven(program, cache() / "maven", Path(work))
        for earlier in range(int(minor) - 1, -1, -1):
            with suppress(_NotFound):
                if maven.versions(library.filled(f"{major}.{earlier}")):
                    return f"{major}.{earlier}"
    return None


@dataclass(frozen=True)
class _Maven:
    """Runs Maven with a separate local repository, so that the place of its files is known."""

    program: str
    repository: Path
    work: Path

    def fetch(self, library: Library, alone: bool, wanted: str | None = None) -> str:
        """Puts the newest available version, or the `wanted` one, into the folder `jars`; returns the version."""
        (self.work / "jars").mkdir(exist_ok=True)
        last = "no version is published"
        for version in self.versions(library)[:_ATTEMPTS] if wanted is None else [wanted]:
            if not alone:
                problem = self._with_dependencies(library, version)
            elif (problem := self._get(library, version)) is None:
                name = f"{library.artifact}-{version}.jar"
                shutil.copy(self._place(library) / version / name, self.work / "jars" / name)
            if problem is None:
                return version
            last = problem
        raise _NotFound(f"{library}: {last}")

    def versions(self, library: Library) -> list[str]:
        """The published versions that fit, the newest first."""
        problem = self._get(library, "LATEST")
        lists = list(self._place(library).glob("maven-metadata-*.xml"))
        if not lists:
            raise _NoVersions(f"{library}: {problem}")
        named = {found.text or "" for file in lists for found in ElementTree.parse(file).iter("version")}
        most = _order(library.at_most) if library.at_most else None
        fitting = [v for v in named if v.startswith(library.series) and (most is None or _order(v) <= most)]
        return sorted(fitting, key=_order, reverse=True)

    def _get(self, library: Library, version: str) -> str | None:
        coordinates = f"{library.group}:{library.artifact}:{version}"
        return self._run("dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false")

    def _with_dependencies(self, library: Library, version: str) -> str | None:
        part = f"<groupId>{library.group}</groupId><artifactId>{library.artifact}</artifactId>"
        (self.work / "pom.xml").write_text(_POM.format(f"{part}<version>{version}</version>"))
        return self._run("dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars")

    def _run(self, *arguments: str) -> str | None:
        """Runs Maven; the reason in one line if it fails."""
        done = subprocess.run(
            [self.program, "-q", "-B", f"-Dmaven.repo.local={self.repository}", *arguments],
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        if done.returncode == 0:
            return None
        said = [line.partition("[ERROR] ")[2] for line in done.stdout.splitlines() if "[ERROR] " in line]
        return said[0].partition(" -> [Help")[0] if said else f"exit code {done.returncode}"

    def _place(self, library: Library) -> Path:
        return self.repository.joinpath(*library.group.split("."), library.artifact)


def _order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """A key by which versions are in order, previews before their release.

    >>> sorted(["4.1.0", "4.0.10", "4.1.0-preview1", "4.0.9"], key=_order)
    ['4.0.9', '4.0.10', '4.1.0-preview1', '4.1.0']
    """
    release, _, rest = version.partition("-")
    return tuple(int(part) for part in re.findall(r"\d+", release)), not rest, rest


_added: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""The names of the packages that were added to a Spark context."""
_thread = threading.local()


def provide(spark: Any, *packages: Package) -> None:
    """Adds packages to a session, and makes their classes visible to this thread. PackageError if one is missing."""
    known = _added.setdefault(spark.sparkContext, set())
    for package in packages:
        if package.name not in known:
            for jar in fetched(package):
                spark.sql(f"ADD JAR '{jar}'")
            known.add(package.name)
    see_added(spark)


def see_added(spark: Any) -> None:
    """Makes the packages of a session visible to everything that this thread starts in the JVM.

    PySpark gives each Python thread a JVM thread; Spark and Kafka look up classes by that thread's class loader, which
    a streaming query started by it inherits.
    """
    if not _added.get(spark.sparkContext) or getattr(_thread, "context", None) is spark.sparkContext:
        return
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    spark.sparkContext._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
    _thread.context = spark.sparkContext


def class_path(jars: Sequence[Path]) -> str:
    """Jars as Java's option -cp takes them."""
    return os.pathsep.join(str(jar) for jar in jars)


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)
