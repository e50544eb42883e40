"""Lowers the priority of the JVM's optimizing compiler, so that it uses what the triggers leave of the processors.

In the first hundred triggers of a JVM its compilers take 40 to 57% of its processor time. On few cores they compete
with the triggers, which run well with what the quick compiler has made. `headgate bench epoch` shows no gain.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

NICENESS = 10
_OPTIMIZING = "C2 CompilerThre"
"""The name of its threads, as Linux shortens it."""


def let_compiler_give_way(context: Any) -> int:
    """Gives the threads of the optimizing compiler, in the JVM of a Spark context, a niceness; returns their number.

    Does nothing where threads have no priority of their own (outside Linux). Threads that they start inherit it.
    """
    if sys.platform != "linux":
        return 0
    return lower_priority(int(context._jvm.java.lang.ProcessHandle.current().pid()))


def lower_priority(process: int) -> int:
    """See `let_compiler_give_way`."""
    found = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            if (thread / "comm").read_text().strip() == _OPTIMIZING:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), NICENESS)
                found += 1
    return found
