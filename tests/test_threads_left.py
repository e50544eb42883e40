from __future__ import annotations

import threading

import pytest

from tests.threads_left import no_threads_left


@pytest.mark.parametrize(("name", "found"), [("headgate-gate", True), ("headgate-stuck", False), ("other", False)])
def test_a_thread_of_headgate_that_stays_is_named(name: str, found: bool) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name=name)
    try:
        if found:
            with pytest.raises(AssertionError, match="headgate-gate"), no_threads_left(patience=0.0):
                thread.start()
        else:
            with no_threads_left():
                thread.start()
        # It was there before.
        with no_threads_left():
            pass
    finally:
        end.set()
        thread.join()


def test_a_thread_that_was_told_to_end_may_take_a_moment() -> None:
    end = threading.Event()
    with no_threads_left():
        threading.Thread(target=end.wait, name="headgate-gate").start()
        threading.Timer(0.05, end.set).start()
