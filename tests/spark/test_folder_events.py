"""Events of folders: a waiting thread learns of a change at once."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.spark.folder_events import FolderEvents

LONG = 600.0
"""Seconds that no wait of these tests lasts."""


@pytest.fixture
def events() -> Iterator[FolderEvents]:
    found = FolderEvents()
    yield found
    found.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has events of folders")
def test_every_kind_of_change_ends_the_wait(events: FolderEvents, tmp_path: Path) -> None:
    watched, other = tmp_path / "watched", tmp_path / "other"
    watched.mkdir()
    other.mkdir()
    events.watch([str(watched)])
    assert not events.wait(0.0)

    (watched / "a").write_text("")
    assert events.wait(LONG)
    assert not events.wait(0.0), "a change is reported once"

    (other / "b").write_text("")
    assert not events.wait(0.0), "the other folder is not watched"
    os.rename(other / "b", watched / "b")
    assert events.wait(LONG)
    (watched / "b").unlink()
    assert events.wait(LONG)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has events of folders")
def test_a_folder_that_is_made_anew_is_watched_again(events: FolderEvents, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    events.watch([str(folder)])
    shutil.rmtree(folder)
    assert events.wait(LONG)
    folder.mkdir()
    events.watch([str(folder)])
    events.wait(0.0)
    (folder / "a").write_text("")
    assert events.wait(LONG)


def test_another_thread_ends_a_wait(events: FolderEvents, tmp_path: Path) -> None:
    events.watch([str(tmp_path)])
    waking = threading.Thread(target=events.wake)
    waking.start()
    assert not events.wait(LONG)
    waking.join()


def test_without_events_it_only_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    events = FolderEvents()
    events.watch([str(tmp_path)])
    (tmp_path / "a").write_text("")
    assert not events.wait(0.0)
    events.close()
