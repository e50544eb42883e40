"""The lanes without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from headgate.spark.checkpoint import Checkpoint
from headgate.spark.lane import Lane
from headgate.spark.lanes import Lanes


def test_a_lane_that_a_failed_change_has_removed_may_still_send_messages(tmp_path: Path) -> None:
    unused: Any = None
    lanes = Lanes(unused, Checkpoint(str(tmp_path)), unused, {}, unused, unused, unused)
    gone = Lane("lane-1-s", "lane-1-s@1", None, False, "unused", cast(Any, unused), cast(Any, unused))
    assert not lanes.running(gone)
    assert lanes.weights(["lane-1-s"]) == {"lane-1-s": 1.0}
