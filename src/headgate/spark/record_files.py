"""Where the flight records of hosts are, so that a supervisor finds the one that a killed one has left behind."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headgate.spark.processes import is_alive

_MEMORY = Path("/dev/shm")
"""Files in memory. While the system writes a page of another file to its disk, whoever writes to the page waits."""


def record_file(folder: Path, name: str, owner: int) -> Path:
    """The flight record of the host `name` that ends with the process `owner`."""
    return _place(folder) / f"headgate-{os.getuid()}-{name}-{owner}.flight"


def remove_left_records(folder: Path) -> None:
    """Removes the records that no supervisor will ask for, because their owners have ended."""
    for path in _place(folder).glob(f"headgate-{os.getuid()}-*.flight"):
        if not is_alive(int(path.stem.rpartition("-")[2])):
            with suppress(OSError):
                path.unlink()


def _place(folder: Path) -> Path:
    return _MEMORY if os.access(_MEMORY, os.W_OK) else folder
