"""Generated queries over generated rows: Headgate gives what Spark SQL gives, or both refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from headgate.spark.analysis import Analyzer
from tests.oracle import headgate_side
from tests.oracle.answers import differences
from tests.oracle.cases import Case
from tests.oracle.generate import cases
from tests.oracle.spark_side import SparkRefused, SparkSide

_sides: list[SparkSide] = []


@pytest.mark.spark
@settings(max_examples=settings().max_examples // 4)
@given(generated=cases())
def test_generated_queries_give_what_spark_gives(spark: Any, generated: list[Case]) -> None:
    if not _sides:
        _sides.append(SparkSide(spark))
    side = _sides[0]
    type_of = Analyzer(lambda: side.session).type_of
    for case in generated:
        try:
            wanted = side.answer(case)
        except SparkRefused as refusal:
            raise AssertionError(f"the generator made what Spark refuses:\n{case.query}\n{refusal}") from refusal
        query = headgate_side.compiled(case, type_of)
        for name, cut in headgate_side.cuts(case).items():
            got = headgate_side.answer(case, query, cut(case), side)
            assert got.header == wanted.header, case.query
            wrong = differences(got.rows, wanted.rows)
            assert not wrong, f"cut: {name}\n{case.query}\n{wrong}"
        got = headgate_side.answer(case, query, headgate_side.given(case), side, restored=True)
        wrong = differences(got.rows, wanted.rows)
        assert not wrong, f"restored\n{case.query}\n{wrong}"
