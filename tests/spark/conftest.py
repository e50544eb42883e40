"""Hosts in this process end with the test that made them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.inline import hosts_end


@pytest.fixture(autouse=True)
def _hosts_end_with_their_test() -> Iterator[None]:
    with hosts_end():
        yield
