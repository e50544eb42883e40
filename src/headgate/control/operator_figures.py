"""Measured cost and selectivity of operators, including operators that do not run yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from headgate.graph.operators import Merge, Operator, Partial
from headgate.runtime.dataflow import key_of
from headgate.scheduling.statistics import Expectation
from headgate.simulation.whatif import default


class OperatorFigures:
    """Figures of operators from the metrics of the network (`network`), which runs the operators `running`.

    An operator that does not run has the figures of a running one that does the same work on another input, or else
    the defaults of its kind.
    """

    def __init__(self, network: Mapping[str, Any], running: Iterable[Operator] = ()) -> None:
        self._known = {each["key"]: each for each in network.get("operators", ())}
        self._alike = {_work(node): self._known[key] for node in running if (key := key_of(node)) in self._known}

    def measured(self, node: Operator) -> Mapping[str, Any]:
        """The figures of an operator that runs; empty if it does not."""
        found: Mapping[str, Any] = self._known.get(key_of(node), {})
        return found

    def expected(self, node: Operator) -> Expectation:
        """Cost (s a row) and selectivity of an operator."""
        known = self.measured(node) or self._alike.get(_work(node))
        usual = default(node)
        return usual if not known else replace(usual, cost=known["cost"], selectivity=known["selectivity"])


def _work(node: Operator) -> tuple[str, str]:
    """What an operator does, regardless of its input. The halves of an aggregate do not count as aggregates."""
    return f"{node.kind} half" if isinstance(node, (Merge, Partial)) else node.kind, node.detail
