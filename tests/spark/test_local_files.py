"""Hadoop's local file system as replaced in our sessions: the same files and permissions, without processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.local_files import forget_origins, use_local_files

pytestmark = pytest.mark.spark


@pytest.fixture
def hadoop(spark: Any) -> Any:
    return spark._jvm.org.apache.hadoop


@pytest.fixture
def files(spark: Any, hadoop: Any) -> Any:
    """The file system that Spark gets for local files."""
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return hadoop.fs.Path("file:///").getFileSystem(configuration)


@pytest.fixture
def original(spark: Any, hadoop: Any) -> Any:
    """Hadoop's own."""
    found = hadoop.fs.RawLocalFileSystem()
    found.initialize(spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
    return found


def _listed(hadoop: Any, files: Any, folder: Path) -> set[tuple[Any, ...]]:
    return {
        (
            status.getPath().toString(),
            # What Spark notes of the files that it has read; `file:/x` and `file:///x` are two files to it.
            status.getPath().toUri().toString(),
            status.isDirectory(),
            status.isDirectory() or status.getLen(),
            status.getModificationTime(),
            status.getBlockSize(),
            status.getPermission().toString(),
            status.getOwner(),
            status.getGroup(),
        )
        for status in files.listStatus(hadoop.fs.Path(str(folder)))
    }


def test_spark_uses_it(spark: Any, files: Any) -> None:
    assert files.getClass().getName() == "headgate.LocalFiles"
    assert files.getScheme() == "file"
    assert use_local_files(spark.sparkContext), "a second time changes nothing"


def test_a_folder_has_the_files_that_hadoop_finds(hadoop: Any, files: Any, original: Any, tmp_path: Path) -> None:
    for name in ("plain", "with space", "a:b", ".hidden", "ü%20", "[x]*?"):
        (tmp_path / name).write_text(name * 3)
    (tmp_path / "plain").chmod(0o640)
    (tmp_path / "below").mkdir(mode=0o750)
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    found = _listed(hadoop, files, tmp_path)
    assert len(found) == 8
    assert found == _listed(hadoop, original, tmp_path)
    assert _listed(hadoop, files, tmp_path / "plain") == _listed(hadoop, original, tmp_path / "plain")


def test_a_link_to_nothing_is_left_out(hadoop: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert not _listed(hadoop, files, tmp_path)


def test_a_folder_that_does_not_exist_is_reported(hadoop: Any, files: Any, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.listStatus(hadoop.fs.Path(str(tmp_path / "nowhere")))


def test_files_that_vanish_during_a_listing_are_left_out(hadoop: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "stays").touch()
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            for number in range(50):
                (tmp_path / f"goes-{number}").touch()
            for number in range(50):
                (tmp_path / f"goes-{number}").unlink()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(200):
            names = {status.getPath().getName() for status in files.listStatus(hadoop.fs.Path(str(tmp_path)))}
            assert "stays" in names
    finally:
        done.set()
        changing.join()


def test_new_files_have_the_permissions_that_hadoop_gives_them(
    hadoop: Any, files: Any, original: Any, tmp_path: Path
) -> None:
    for name, system in (("new", files), ("old", original)):
        system.create(hadoop.fs.Path(str(tmp_path / name))).close()
        system.mkdirs(hadoop.fs.Path(str(tmp_path / f"{name}-folder")))
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "old").st_mode
    assert os.stat(tmp_path / "new-folder").st_mode == os.stat(tmp_path / "old-folder").st_mode


@pytest.mark.parametrize("mode", [0o000, 0o600, 0o644, 0o751, 0o777, 0o1777])
def test_permissions_are_set(hadoop: Any, files: Any, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.touch()
    files.setPermission(hadoop.fs.Path(str(path)), hadoop.fs.permission.FsPermission(f"{mode:04o}"))
    assert os.stat(path).st_mode & 0o7777 == mode


def test_settings_stay_and_the_notes_on_their_origin_are_gone(spark: Any) -> None:
    context = spark.sparkContext
    forget_origins(context)
    configuration = context._jsc.hadoopConfiguration()
    assert configuration.size() > 500
    assert configuration.get("fs.defaultFS") == "file:///"
    assert not configuration.getPropertySources("fs.defaultFS")
