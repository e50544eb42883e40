"""The JVM's optimizing compiler has a lower priority than the threads that run triggers."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from headgate.spark.compilers import NICENESS, lower_priority


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux threads have priorities of their own")
def test_only_the_optimizing_compiler_is_nicer() -> None:
    names = ("C2 CompilerThread0", "C1 CompilerThread0")
    started, over = threading.Barrier(len(names) + 1), threading.Event()
    seen: dict[str, int] = {}

    def work(name: str) -> None:
        thread = threading.get_native_id()
        # Linux keeps 15 characters of a name, as it does of those that the JVM gives.
        Path(f"/proc/self/task/{thread}/comm").write_text(name)
        started.wait()
        over.wait()
        seen[name] = os.getpriority(os.PRIO_PROCESS, thread)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    started.wait()
    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert lower_priority(os.getpid()) == 1
    over.set()
    for thread in threads:
        thread.join()
    assert seen == {names[0]: NICENESS, names[1]: usual}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == usual
