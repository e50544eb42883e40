"""Hashes of columns when threads compute them at the same time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from headgate.expressions import hashing


def test_threads_that_need_longer_powers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pa.array(["", "a", "bc", "déf" * 50] * 100)
    wanted = hashing.hashed([texts], len(texts))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(50):
                monkeypatch.setattr(hashing, "_POWERS", hashing._Powers())
                together = Barrier(4)

                def work(together: Barrier = together) -> bool:
                    together.wait()
                    return bool((hashing.hashed([texts], len(texts)) == wanted).all())

                assert all(future.result() for future in [threads.submit(work) for _ in range(4)])
    finally:
        sys.setswitchinterval(before)
