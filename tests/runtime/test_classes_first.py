"""A run in a hurry ends when the highest class has its results, and what is left is done by the next."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.operators.batch import Batch
from headgate.operators.live import live
from headgate.runtime import Network
from headgate.sql import Catalog

SCRIPT = """
CREATE STREAM s (a BIGINT) USING rate;
CREATE CLASS critical WITH (priority = 6);
CREATE CLASS report WITH (priority = 1);
CREATE QUERY alert CLASS critical AS SELECT a FROM s WHERE a > 5;
CREATE QUERY slow CLASS report AS SELECT a + 1 AS b FROM s;
"""


class Clock:
    """Time that passes only while the slow query works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("policy", ["cqc", "fifo", "rr"])
def test_the_rest_waits_for_the_next_run(policy: str) -> None:
    clock = Clock()
    catalog = Catalog()
    catalog.execute(SCRIPT)

    class Slow:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def process(self, port: int, batch: Batch) -> list[Batch]:
            clock.now += 0.1
            return self._inner.process(port, batch)  # type: ignore[attr-defined, no-any-return]

    network = Network(
        catalog.graph,
        policy,
        clock=clock,
        make=lambda node, settings: Slow(live(node, settings)) if node.kind == "project" else live(node, settings),  # type: ignore[arg-type, return-value]
    )
    for start in range(0, 100, 10):
        network.push("s", pa.RecordBatch.from_arrays([pa.array(range(start, start + 10))], ["a"]))
    report = network.run(10.0, soon=0.02)
    assert sum(result.rows.num_rows for result in network.take("alert")) == 94
    assert report.waiting > 0
    assert clock.now <= 0.3
    assert network.run(10.0).waiting == 0
    assert sum(result.rows.num_rows for result in network.take("slow")) == 100
