"""The JVM's optimizing compiler has a lower priority than the threads that run triggers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.compilers import NICENESS, let_compiler_give_way

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux threads have priorities of their own"),
]


def test_only_the_optimizing_compiler_is_nicer(spark: Any) -> None:
    process = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    usual = os.getpriority(os.PRIO_PROCESS, process)
    assert let_compiler_give_way(spark.sparkContext) >= 1
    found: dict[str, set[int]] = {}
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            kind = (thread / "comm").read_text()[:11]
            found.setdefault(kind, set()).add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
        except OSError:
            continue
    assert found.pop("C2 Compiler") == {NICENESS}
    assert all(values == {usual} for values in found.values())
