"""Delta tables as streams and as static tables that change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.table_formats.lake import Lake
from tests.table_formats.source import SourceTests

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestDeltaSource(SourceTests):
    """What holds for every format, and how Delta reports a table that has other columns."""

    skips_changes = "skipChangeCommits"

    def test_a_stream_whose_table_changes_its_columns(self, lake: Lake, tmp_path: Path) -> None:
        options = lake.place(tmp_path, "path", "widened")
        lake.create("k STRING", options)
        lake.sql("INSERT INTO {} VALUES ('a')", options)
        said = self.failure(lake, tmp_path, options, "ALTER TABLE {} ADD COLUMNS (v INT)", "a")
        assert "schema" in said.lower()
        # A restart reads the table with its new columns.
        lake.sql("INSERT INTO {} VALUES ('b', 1)", options)
        said = self.failure(lake, tmp_path, options, "UPDATE {} SET k = 'c' WHERE k = 'b'", "b")
        assert self.skips_changes in said
