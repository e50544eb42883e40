"""Stamps of recorded answers: any change of the file or of Spark's version makes them unfit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded import is_recorded, stamped, write_stamped

TEXT = "# A table.\n# Of sums.\nrow: 1\n\n# about this:\n1 + 1 => 2\n"


def test_the_stamp_stands_below_the_first_comments_and_replaces_another() -> None:
    text = stamped(TEXT, "4.3.0")
    assert text.splitlines()[:2] == ["# A table.", "# Of sums."]
    assert text.splitlines()[2].startswith("# answers recorded from Spark 4.3.0: ")
    assert stamped(text, "4.3.0") == text
    assert stamped(text, "4.4.0").count("recorded") == 1


def test_a_file_is_recorded_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sums.txt"
    file.write_text(TEXT)
    assert not is_recorded(file)
    write_stamped(file, TEXT)
    assert is_recorded(file)
    text = file.read_text()
    for change in ("row: 1", "1 + 1", "=> 2", "# about this"):
        file.write_text(text.replace(change, change + "0"))
        assert not is_recorded(file)
    file.write_text(text)
    assert is_recorded(file)
    monkeypatch.setattr("tests.recorded.version", lambda name: "9.9")
    assert not is_recorded(file)
