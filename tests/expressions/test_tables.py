"""Tables of expression cases: Headgate and Spark must both give the recorded values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.expressions.errors import EvaluationError
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Foreign
from headgate.operators.evaluate import evaluate
from tests.expressions.record import condition, spark_values
from tests.expressions.tables import FOLDER, Case, Table, alike, batch_of, bound, load, shown
from tests.recorded import asked_when_changed

FILES = sorted(FOLDER.glob("*.txt"))
MARKS = asked_when_changed(FILES, "tests.expressions.record")


def _check(table: Table, case: Case, values: list[str], who: str) -> str | None:
    if len(values) == len(case.expected) and all(map(alike, values, case.expected)):
        return None
    return f"{table.path.name}:{case.line}: {case.expression}\n  {who}: {values}\n  expected: {case.expected}"


def _native(table: Table, case: Case, catalog: Any, rows: Any) -> str | None:
    try:
        (expr,) = bound(catalog, [case.expression])
    except ValueError as error:
        return f"{table.path.name}:{case.line}: {case.expression}\n  refused: {error}"
    if any(isinstance(e, Foreign) for e in expr.walk()):
        return f"{table.path.name}:{case.line}: {case.expression}\n  left to Spark: {expr}"
    try:
        values = shown(evaluate(expr, batch_of(rows)))
    except EvaluationError as error:
        if case.error is not None and error.condition == case.error:
            return None if fallible(expr) else f"{case.expression} failed, but says that it cannot"
        return f"{table.path.name}:{case.line}: {case.expression}\n  failed: {error}\n  expected: {case.expected}"
    except pa.ArrowException as error:
        return f"{table.path.name}:{case.line}: {case.expression}\n  broke: {error!r}"
    if case.error is not None:
        return f"{table.path.name}:{case.line}: {case.expression}\n  gave {values}, expected the error {case.error}"
    return _check(table, case, values, "headgate")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_headgate_gives_the_recorded_values(path: Path) -> None:
    table = load(path)
    catalog, rows = table.catalog, table.batch()
    problems = [p for case in table.cases if (p := _native(table, case, catalog, rows))]
    assert not problems, f"{len(problems)} of {len(table.cases)}:\n" + "\n".join(problems)


@pytest.mark.spark
@pytest.mark.parametrize("path", [pytest.param(file, id=file.stem, marks=MARKS[file]) for file in FILES])
def test_spark_gives_the_recorded_values(path: Path, spark: Any) -> None:
    table = load(path)
    sound = [c for c in table.cases if c.error is None]
    try:
        columns = spark_values(spark, table, [c.expression for c in sound]) if sound else []
        problems = [
            problem
            for case, column in zip(sound, columns, strict=True)
            if (problem := _check(table, case, shown(column), "spark"))
        ]
        for case in table.cases:
            if case.error is not None:
                with pytest.raises(Exception) as caught:
                    spark_values(spark, table, [case.expression])
                if condition(caught.value) != case.error:
                    problems.append(f"{case.expression}: Spark says {condition(caught.value)}, not {case.error}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert not problems, "\n".join(problems)


def test_there_are_enough_cases() -> None:
    assert sum(len(load(p).cases) for p in FILES) >= 400
