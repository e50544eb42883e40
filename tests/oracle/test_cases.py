"""Every case of the case files: Spark gives the expected rows, and so does Headgate, however the rows are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headgate.control.plans.alternates import alternates
from tests.oracle import headgate_side, streaming
from tests.oracle.answers import Answer, check
from tests.oracle.cases import FILES, Case, load_all, over_the_same_rows
from tests.oracle.spark_side import SparkRefused, SparkSide
from tests.recorded import asked_when_changed

CASES = load_all()
MARKS = asked_when_changed(FILES, "tests.oracle.record")


def each(cases: Sequence[Case], ask_spark: bool = False) -> pytest.MarkDecorator:
    """A test for each case; those that only ask Spark again are slow while its answers are recorded."""
    found = [pytest.param(case, id=case.id, marks=MARKS[case.file] if ask_spark else ()) for case in cases]
    return pytest.mark.parametrize("case", found)


@pytest.mark.spark
@each(CASES, ask_spark=True)
def test_spark_gives_what_is_expected(case: Case, spark_side: SparkSide) -> None:
    if case.fails is not None:
        with pytest.raises(SparkRefused, match=case.fails):
            spark_side.answer(case)
    else:
        check(spark_side.answer(case), case)


def given_answer(case: Case, spark_side: SparkSide, type_of: Callable[..., Any]) -> Answer:
    """What Headgate gives with the batches as the file has them."""
    query = headgate_side.compiled(case, type_of)
    rows = headgate_side.carrying(case, [query], spark_side)
    return headgate_side.answer(rows, query, headgate_side.given(rows))


@pytest.mark.spark
@each(CASES)
def test_headgate_gives_what_is_expected(case: Case, spark_side: SparkSide, type_of: Callable[..., Any]) -> None:
    if case.fails is not None:
        with pytest.raises(ValueError, match=case.fails.split(".")[0]):
            given_answer(case, spark_side, type_of)
        return
    query = headgate_side.compiled(case, type_of)
    rows = headgate_side.carrying(case, [query], spark_side)
    for name, cut in headgate_side.cuts(case).items():
        try:
            check(headgate_side.answer(rows, query, cut(rows)), case)
        except AssertionError as error:
            raise AssertionError(f"cut: {name}\n{error}") from error
    check(headgate_side.answer(rows, query, headgate_side.given(rows), restored=True), case)


@pytest.mark.spark
@each([case for case in CASES if case.file.stem in ("plans", "static") and case.fails is None])
def test_every_alternate_plan_gives_what_is_expected(
    case: Case, spark_side: SparkSide, type_of: Callable[..., Any]
) -> None:
    query = headgate_side.compiled(case, type_of)
    rows = headgate_side.carrying(case, [query], spark_side)
    for name, plan in alternates(query).items():
        try:
            check(headgate_side.answer(rows, replace(query, plan=plan), headgate_side.given(rows)), case)
        except AssertionError as error:
            raise AssertionError(f"plan: {name}\n{error}") from error


TOGETHER = [cases for cases in over_the_same_rows(case for case in CASES if case.fails is None) if len(cases) > 1]


@pytest.mark.spark
@pytest.mark.parametrize("cases", TOGETHER, ids=lambda cases: f"{cases[0].file.stem} {cases[0].zone}, {len(cases)}")
def test_queries_in_one_graph_do_not_disturb_each_other(
    cases: list[Case], spark_side: SparkSide, type_of: Callable[..., Any]
) -> None:
    queries = [headgate_side.compiled(case, type_of, f"q{number}") for number, case in enumerate(cases)]
    rows = headgate_side.carrying(cases[0], queries, spark_side)
    for restored in (False, True):
        found = headgate_side.answers(rows, queries, headgate_side.given(rows), restored)
        for query, case in zip(queries, cases, strict=True):
            check(found[query.name], case)


@pytest.mark.spark
@each([case for case in CASES if "streaming" in case.options], ask_spark=True)
def test_structured_streaming_drops_the_same_rows(case: Case, spark_side: SparkSide) -> None:
    check(streaming.answer(case, spark_side.session), case)


def test_there_are_cases_of_every_kind() -> None:
    assert len(CASES) >= 150
    assert sum("streaming" in case.options for case in CASES) >= 5
    assert all(case.expected is not None or case.fails is not None for case in CASES)
