"""The archive of Spark's classes: where it is, who makes it, and that nothing depends on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from headgate.spark import class_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    monkeypatch.setattr(class_archive, "_make_at_exit", lambda: None)
    return tmp_path / "headgate"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The archives that were made; making one is quick here."""
    made: list[Path] = []

    def write(path: Path) -> None:
        path.write_text("classes")
        made.append(path)

    monkeypatch.setattr(class_archive, "_write", write)
    return made


def test_it_is_made_once_and_used_from_then_on(cache: Path, written: list[Path]) -> None:
    assert class_archive.options() == ""
    assert class_archive.make()
    assert class_archive.make()
    [path] = written
    assert path.parent == cache
    assert f"-XX:SharedArchiveFile={path} -Xshare:auto" in class_archive.options()
    assert set(cache.iterdir()) == {path, path.with_suffix(".size")}


def test_one_that_was_cut_off_is_not_used_and_made_anew(cache: Path, written: list[Path]) -> None:
    assert class_archive.make()
    [path] = written
    path.write_text("cla")
    assert class_archive.options() == ""
    assert class_archive.make()
    assert len(written) == 2
    assert str(path) in class_archive.options()


def test_another_java_has_another(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = class_archive.archive()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("another")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert first != class_archive.archive()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    assert class_archive.archive() is None
    assert class_archive.options() == ""


def test_off(cache: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_archive.make()
    monkeypatch.setenv(class_archive.SWITCH, "off")
    assert class_archive.options() == ""
    assert not class_archive.make()


def test_one_process_makes_it(cache: Path, written: list[Path]) -> None:
    path = class_archive.archive()
    assert path is not None
    cache.mkdir()
    claim = path.with_suffix(".claim")
    claim.touch()
    assert not class_archive.make()
    assert not written
    # A process that was killed leaves its claim.
    long_ago = time.time() - 3600
    os.utime(claim, (long_ago, long_ago))
    assert class_archive.make()


def test_a_folder_that_cannot_be_written_or_is_full(
    cache: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 20))
    assert not class_archive.make()
    shutil.rmtree(cache)
    cache.write_text("a file where the folder should be")
    assert not class_archive.make()
    assert class_archive.options() == ""


def test_a_long_unused_archive_is_removed(cache: Path, written: list[Path]) -> None:
    cache.mkdir()
    old, recent = cache / "spark-old.jsa", cache / "spark-recent.jsa"
    for path in (old, recent):
        path.touch()
    os.utime(old, (0, 0))
    assert class_archive.make()
    assert not old.exists()
    assert recent.exists()


@pytest.mark.slow
def test_a_session_uses_it_and_starts_with_a_damaged_one(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop(class_archive.SWITCH, None)

    def python(*arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    python("-m", "headgate.spark.class_archive")
    [path] = (tmp_path / "headgate").glob("*.jsa")
    script = (
        "from headgate.spark.session import local_session; spark = local_session('test');"
        " pid = spark.sparkContext._gateway.proc.pid; maps = open(f'/proc/{pid}/maps').read();"
        " print(spark.range(3).count(), '.jsa' in maps and 'headgate/spark-' in maps)"
    )
    assert python("-c", script) == "3 True\n"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:1_000_000])
    assert python("-c", script).startswith("3 ")
