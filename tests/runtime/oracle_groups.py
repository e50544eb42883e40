"""The oracle's cases as networks: all queries over the same rows in one, each against the rows its case expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime import Network, result_table
from tests.oracle.answers import FLOATS, Answer, differences, read_expected
from tests.oracle.cases import Case, load_all, over_the_same_rows
from tests.oracle.headgate_side import carrying, compiled, given
from tests.oracle.spark_side import SparkSide

THREADS = 3


@cache
def groups() -> dict[str, list[Case]]:
    """The cases over the same rows, by the name of their file and a number."""
    return {f"{cases[0].file.stem} {n}": cases for n, cases in enumerate(over_the_same_rows(load_all()))}


@dataclass(frozen=True)
class Expected:
    """The answer of Spark SQL to a query, as the case file states it and the oracle's own tests check."""

    case: Case
    query: Query

    @cached_property
    def answer(self) -> tuple[str, list[tuple[Any, ...]]]:
        return read_expected(self.case.expected or "", [field.type for field in self.query.schema.fields])

    def wrong(self, network: Network) -> str:
        """The differences between the network's results and the expected ones; empty if there are none."""
        name, case = self.query.name, self.case
        results = network.take(name)
        failure = network.failures.get(name)
        if case.fails is not None:
            if failure is None or case.fails.split(".")[0] not in str(failure):
                return f"{case.file}:{case.line}: should fail with {case.fails}, but {failure}"
            return ""
        if failure is not None:
            return f"{case.file}:{case.line}: {failure}"
        found = Answer.of(result_table(self.query, results))
        header, rows = self.answer
        if found.header != header:
            return f"{case.file}:{case.line}: {found.header} instead of {header}"
        differing = differences(found.rows, rows, float(case.options.get("within", FLOATS)))
        return f"{case.file}:{case.line}\n{differing}" if differing else ""


class Group:
    """Queries over the same rows, and these rows with the columns that Catalyst computes."""

    def __init__(self, cases: list[Case], type_of: Callable[..., pa.DataType], spark: SparkSide) -> None:
        self.expected: list[Expected] = []
        for number, case in enumerate(cases):
            self.expected.append(Expected(case, compiled(case, type_of, f"q{number}")))
        first = carrying(cases[0], [each.query for each in self.expected], spark)
        tables = {name: pa.Table.from_batches(first.batches[name]) for name, of in first.inputs.items() if of.static}
        self.settings = Settings(tables=tables)
        read = {source.stream for _, source in self._graph().sources()}
        self.pushes = [(stream, batch) for stream, batch in given(first) if stream in read]

    def _graph(self) -> SharedGraph:
        graph = SharedGraph()
        for each in self.expected:
            graph.add(each.query)
        return graph

    def network(self, policy: str, mode: str, **options: Any) -> Network:
        return Network(self._graph(), policy, self.settings, mode=mode, threads=THREADS, **options)

    def check(self, network: Network, said: str) -> None:
        """Ends the streams, processes the remaining rows, and compares every query."""
        network.finish()
        report = network.run()
        assert report.done, f"{report} under {said}"
        wrong = [found for each in self.expected if (found := each.wrong(network))]
        assert not wrong, f"under {said}:\n" + "\n".join(wrong)
        assert network.memory_bytes == 0, said
        network.close()
