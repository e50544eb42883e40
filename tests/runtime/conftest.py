"""Networks end with the test that made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest

from headgate.runtime import Network


@pytest.fixture(autouse=True)
def _networks_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: WeakSet[Network] = WeakSet()
    start = Network.__init__

    def remembered(self: Network, *args: Any, **options: Any) -> None:
        start(self, *args, **options)
        made.add(self)

    monkeypatch.setattr(Network, "__init__", remembered)
    yield
    for network in list(made):
        network.close()
