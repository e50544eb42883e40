"""The shared graph: equal operators are one, and operators that no query needs are removed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from headgate.expressions.normalize import conjunction
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import Operator, Project, Select, Source, Union
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BOOLEAN, INT, Schema

SCHEMA = Schema.of(("a", INT), ("b", INT))
A, B = Column(INT, 0), Column(INT, 1)


def above(column: Expr, value: int) -> Expr:
    return Call(BOOLEAN, "gt", (column, Literal(INT, value)))


def select(*predicates: Expr, names: Schema = SCHEMA) -> Select:
    return Select(names, Source(SCHEMA, "s"), conjunction(predicates))


def query(name: str, plan: Operator) -> Query:
    return Query(name, plan, plan.schema)


def test_equal_conditions_in_another_order_and_under_other_names_are_one_operator() -> None:
    graph = SharedGraph()
    first = graph.add(query("x", select(above(A, 5), above(B, 1))))
    other = select(above(B, 1), Call(BOOLEAN, "lt", (Literal(INT, 5), A)), names=Schema.of(("p", INT), ("q", INT)))
    assert len(first) == 2
    assert graph.add(query("y", other)) == []
    assert graph.users(first[1]) == {"x", "y"}
    assert [q.name for q in graph.outputs(first[1])] == ["x", "y"]


def test_removing_a_query_takes_only_what_no_other_needs() -> None:
    graph = SharedGraph()
    shared = select(above(A, 5))
    tip = Project(Schema.of(("b", INT)), shared, (B,))
    graph.add(query("x", shared))
    [added] = graph.add(query("y", tip))
    source, middle = graph.number(Source(SCHEMA, "s")), graph.number(shared)
    assert graph.consumers(middle) == [(added, 0)]
    assert graph.remove("y") == [added]
    assert set(graph.operators) == {source, middle}
    assert graph.remove("x") == [middle, source], "consumers first"
    assert graph.operators == {}
    with pytest.raises(KeyError):
        graph.remove("x")


def test_a_name_is_used_once_and_numbers_never_again() -> None:
    graph = SharedGraph()
    [first, _] = graph.add(query("x", select(above(A, 5))))
    with pytest.raises(ValueError, match="query x is in the graph already"):
        graph.add(query("x", select(above(A, 6))))
    graph.remove("x")
    assert min(graph.add(query("x", select(above(A, 5))))) > first


def test_an_operator_that_reads_one_input_twice_has_two_ports() -> None:
    graph = SharedGraph()
    both = Union(SCHEMA, (select(above(A, 5)), select(above(A, 5))))
    numbers = graph.add(query("x", both))
    assert graph.inputs(numbers[-1]) == (numbers[1], numbers[1])
    assert graph.consumers(numbers[1]) == [(numbers[-1], 0), (numbers[-1], 1)]


def test_equality_survives_another_process_with_other_hashes() -> None:
    plan = select(above(A, 5), above(B, 1))
    hash(plan)
    program = (
        "import pickle, sys; p = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps((hash(p), p)))"
    )
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(plan),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert pickle.loads(made.stdout)[1] == plan
