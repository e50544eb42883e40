"""Generated queries over generated rows: Headgate gives what Spark SQL gives, or both refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from headgate.spark.analysis import Analyzer
from tests.oracle import headgate_side
from tests.oracle.answers import Answer, differences
from tests.oracle.cases import Case
from tests.oracle.compose import composed
from tests.oracle.generate import cases
from tests.oracle.spark_side import SparkRefused, SparkSide

_sides: list[SparkSide] = []


@pytest.mark.spark
@settings(max_examples=settings().max_examples // 4)
@given(generated=cases())
def test_generated_queries_give_what_spark_gives(spark: Any, generated: list[Case]) -> None:
    give_what_spark_gives(spark, generated)


@pytest.mark.spark
@settings(max_examples=settings().max_examples // 4)
@given(generated=composed())
def test_queries_over_queries_give_what_spark_gives(spark: Any, generated: list[Case]) -> None:
    give_what_spark_gives(spark, generated)


def give_what_spark_gives(spark: Any, generated: list[Case]) -> None:
    """All queries, alone with their rows cut in every way, and in one graph."""
    if not _sides:
        _sides.append(SparkSide(spark))
    side = _sides[0]
    type_of = Analyzer(lambda: side.session).type_of
    wanted = {case.name: answer(case, side) for case in generated}
    queries = [headgate_side.compiled(case, type_of, case.name) for case in generated]
    # All have the same rows.
    rows = headgate_side.carrying(generated[0], queries, side)
    for case, query in zip(generated, queries, strict=True):
        for name, cut in headgate_side.cuts(case).items():
            compare(headgate_side.answer(rows, query, cut(rows)), wanted[case.name], case, name)
    for restored in (False, True):
        found = headgate_side.answers(rows, queries, headgate_side.given(rows), restored)
        for case in generated:
            compare(found[case.name], wanted[case.name], case, "in one graph" + ", restored" * restored)


def answer(case: Case, side: SparkSide) -> Answer:
    """What Spark says; the generator makes nothing that it refuses."""
    try:
        return side.answer(case)
    except SparkRefused as refusal:
        raise AssertionError(f"the generator made what Spark refuses:\n{case.query}\n{refusal}") from refusal


def compare(got: Answer, wanted: Answer, case: Case, how: str) -> None:
    """The same names, types and rows, or what differs."""
    assert got.header == wanted.header, case.query
    wrong = differences(got.rows, wanted.rows)
    assert not wrong, f"{how}\n{case.setup}\n{case.statements}\n{case.query}\n{wrong}"
