"""The lanes without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.lane import Lane
from headgate.spark.lane_notes import noted
from headgate.spark.lanes import Lanes
from headgate.sql import Catalog


def test_a_lane_that_a_failed_change_has_removed_may_still_send_messages(tmp_path: Path) -> None:
    unused: Any = None
    lanes = Lanes(unused, Checkpoint(str(tmp_path)), unused, {}, unused, unused, unused)
    gone = Lane("lane-1-s", "lane-1-s@1", None, False, "unused", cast(Any, unused), cast(Any, unused))
    assert not lanes.running(gone)
    assert lanes.weights(["lane-1-s"]) == {"lane-1-s": 1.0}


def test_the_log_of_a_lane_stays_in_its_folder_whatever_its_stream_is_called(tmp_path: Path) -> None:
    unused: Any = None
    checkpoint = Checkpoint(str(tmp_path))
    lanes = Lanes(unused, checkpoint, unused, {}, unused, unused, unused)
    catalog = Catalog()
    for name in ("a", "x\\..\\..:\u00fc b"):
        catalog.execute(f"CREATE STREAM `{name}` (v INT) USING parquet OPTIONS (path 'unused')")
        catalog.execute(f"CREATE QUERY `of {name}` AS SELECT v FROM `{name}`")
        lanes._assign([name], list(catalog.queries.values()))
    assert list(noted(checkpoint)) == ["main", "lane-1-x_______\u00fc_b"]
