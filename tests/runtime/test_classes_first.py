"""A run with `soon` ends when the highest class has its results; the next run processes the rest."""

from __future__ import annotations

import pytest

from headgate.graph.operators import Operator
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.runtime import Network
from tests.runtime.plans import CRITICAL, above, columns, graph, query, rows, source


@pytest.mark.parametrize("policy", ["cqc", "rr"])
def test_the_rest_waits_for_the_next_run(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def make(node: Operator, settings: Settings) -> LiveOperator:
        """The report takes a tenth of a second for each batch; everything else takes no time."""
        made = live(node, settings)
        if node.kind == "project":
            process = made.process

            def slow(port: int, batch: Batch) -> list[Batch]:
                now[0] += 0.1
                return process(port, batch)

            monkeypatch.setattr(made, "process", slow, raising=False)
        return made

    s = source("s")
    network = Network(
        graph(query("alert", above(s, -1), CRITICAL), query("report", columns(s, 1, 2))),
        policy,
        clock=lambda: now[0],
        make=make,
    )
    for start in range(20):
        network.push("s", rows(5000, start, start * 1000.0))
    report = network.run(10.0, soon=0.02)
    assert sum(result.rows.num_rows for result in network.take("alert")) == 100_000
    assert report.waiting > 0
    assert now[0] < 1.0
    assert network.run(10.0).waiting == 0
    assert sum(result.rows.num_rows for result in network.take("report")) == 100_000
