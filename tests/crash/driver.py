"""Runs `headgate run` in a process that kills itself with −9 at a chosen point of the commit protocol.

Usage: driver.py POINT NUMBER FUSE ARGUMENTS…: POINT is one of `POINTS` or `KAFKA_POINTS`, or `none`; the process dies
when it reaches the point for the NUMBERth time after the file FUSE has appeared.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate.cli.main import run
from headgate.connectors.kafka_producer import Cluster
from headgate.spark import epochs
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.written_files import WrittenFiles

POINTS: dict[str, tuple[type, str, bool]] = {
    "before-commit": (Checkpoint, "commit", True),
    "after-commit": (Checkpoint, "commit", False),
    "before-publish": (WrittenFiles, "publish", True),
    "after-publish": (WrittenFiles, "publish", False),
    "before-published": (Checkpoint, "publish", True),
    "in-clean": (Checkpoint, "clean", False),
}
KAFKA_POINTS: dict[str, tuple[type, str, bool]] = {
    "before-transaction": (Cluster, "end", True),
    "after-transaction": (Cluster, "end", False),
}
"""The end of an epoch's transaction. Before it, messages have been sent; after it, the checkpoint does not know it."""


def arm(point: str, number: int, fuse: Path) -> None:
    """Makes the process die when it reaches the point for the `number`th time while `fuse` exists."""
    if point == "in-clean":
        # Otherwise old commits are removed every twentieth epoch only.
        epochs._CLEAN_EVERY = 1
    owner, name, before = (POINTS | KAFKA_POINTS)[point]
    original: Callable[..., Any] = getattr(owner, name)
    left = [number]

    def armed(self: Any, *args: Any, **named: Any) -> Any:
        left[0] -= fuse.exists()
        if before and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, *args, **named)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, armed)


if __name__ == "__main__":
    if sys.argv[1] != "none":
        arm(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    run(sys.argv[4:])
