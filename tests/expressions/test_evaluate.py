"""The evaluator: which values are shared, and which rows an expression sees. `headgate bench operators` measures it."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate.expressions.calls import call, cast
from headgate.expressions.errors import EvaluationError
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Column, Expr, Foreign, Literal
from headgate.graph.types import BOOLEAN, DOUBLE, FLOAT, INT, STRING
from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate, select

A, B, S = Column(INT, 0), Column(DOUBLE, 1), Column(STRING, 2)


def _batch(a: list[int | None], **more: list[object]) -> Batch:
    columns = {"a": pa.array(a, INT), "b": pa.array([None] * len(a), DOUBLE), "s": pa.array([None] * len(a), STRING)}
    columns.update({name: pa.array(values) for name, values in more.items()})
    rows = pa.record_batch(columns)
    return Batch(rows, Arrival.at(1.0, rows.num_rows))


def _int(value: int) -> Literal:
    return Literal(INT, value)


def _inverse(of: Expr) -> Expr:
    return call("divide", _int(100), of)


def test_values_are_computed_once_per_batch() -> None:
    batch = _batch([1, 2, 3])
    expr = call("gt", A, _int(1))
    first = evaluate(expr, batch)
    assert evaluate(call("gt", Column(INT, 0), _int(1)), batch) is first
    assert batch.computed[expr] is first


def test_shared_parts_are_computed_once() -> None:
    batch = _batch([1, 2, 3])
    shared = call("mod", A, _int(2))
    evaluate(call("eq", shared, _int(0)), batch)
    kept = batch.computed[shared]
    evaluate(call("eq", shared, _int(1)), batch)
    assert batch.computed[shared] is kept


def test_equal_texts_over_different_column_types_do_not_share_a_program() -> None:
    as_text = Call(STRING, "cast", (Column(INT, 0),))
    also = Call(STRING, "cast", (Column(DOUBLE, 0),))
    assert as_text == also
    assert evaluate(as_text, Batch(pa.record_batch({"a": pa.array([1], INT)}), Arrival.at(0, 1))).to_pylist() == ["1"]
    doubles = Batch(pa.record_batch({"a": pa.array([1.0])}), Arrival.at(0, 1))
    assert evaluate(also, doubles).to_pylist() == ["1.0"]


def test_select_only_narrows_the_mask() -> None:
    batch = _batch([1, None, 3, 4])
    once = select(batch, [call("gt", A, _int(1))])
    assert once.rows is batch.rows
    twice = select(once, [call("lt", A, _int(4))])
    assert twice.rows is batch.rows
    assert twice.computed is batch.computed
    assert twice.materialized().rows.column(0).to_pylist() == [3]
    assert twice.materialized().arrival.count == 1


def test_constant_predicates() -> None:
    batch = _batch([1, 2])
    assert select(batch, [Literal(BOOLEAN, True)]) is batch
    assert select(batch, [Literal(BOOLEAN, None)]).materialized().rows.num_rows == 0
    assert select(batch, [call("gt", _int(1), _int(2))]).materialized().rows.num_rows == 0


def test_fallible_predicates_see_only_the_selected_rows() -> None:
    batch = _batch([0, 10, 50, None])
    chosen = select(batch, [call("gt", _inverse(A), _int(5)), call("ne", A, _int(0))])
    assert chosen.materialized().rows.column(0).to_pylist() == [10]
    with pytest.raises(EvaluationError, match=r"\[DIVIDE_BY_ZERO\]"):
        select(batch, [call("gt", _inverse(A), _int(5))])


def test_fallible_predicates_are_computed_in_order() -> None:
    batch = _batch([0, 10], s=["x", "5"])
    positive = call("gt", call("add", A, _int(1)), _int(5))
    number = call("gt", cast(S, INT), _int(1))
    assert select(batch, [positive, number]).materialized().rows.num_rows == 1
    with pytest.raises(EvaluationError, match=r"\[CAST_INVALID_INPUT\] The value 'x'"):
        select(batch, [number, positive])


def test_fallible_values_are_null_on_rows_that_are_not_selected() -> None:
    batch = select(_batch([0, 10, None, 50]), [call("ne", A, _int(0))])
    assert evaluate(_inverse(A), batch).to_pylist() == [None, 10.0, None, 2.0]
    assert evaluate(_inverse(A), batch.materialized()).to_pylist() == [10.0, 2.0]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("and", call("ne", A, _int(0)), call("gt", _inverse(A), _int(5))), [False, True, False, None]),
        (call("or", call("eq", A, _int(0)), call("gt", _inverse(A), _int(5))), [True, True, False, None]),
        (call("case", call("eq", A, _int(0)), _int(-1), _inverse(A)), [-1.0, 10.0, 2.0, None]),
        (
            call(
                "case", call("eq", A, _int(0)), Literal(DOUBLE, None), call("gt", _inverse(A), _int(5)), _inverse(A), B
            ),
            [None, 10.0, None, None],
        ),
        (call("coalesce", call("nullif", A, _int(10)), cast(_inverse(A), INT)), [0, 10, 50, None]),
        (call("nvl2", call("nullif", A, _int(0)), _inverse(A), Literal(DOUBLE, 0.0)), [0.0, 10.0, 2.0, 0.0]),
    ],
    ids=["and", "or", "case", "case with two", "coalesce", "nvl2"],
)
def test_branches_are_computed_on_the_rows_that_reach_them(expr: Expr, expected: list[object]) -> None:
    assert fallible(expr)
    assert evaluate(expr, _batch([0, 10, 50, None])).to_pylist() == expected


def test_a_branch_that_is_reached_fails() -> None:
    expr = call("case", call("gt", A, _int(0)), _int(1), _inverse(A))
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        evaluate(expr, _batch([0, 1]))


def test_constants_that_fail_do_so_only_where_there_are_rows() -> None:
    broken = call("divide", _int(1), _int(0))
    assert evaluate(broken, _batch([])).to_pylist() == []
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        evaluate(broken, _batch([1]))
    guarded = call("case", call("gt", A, _int(0)), broken, Literal(DOUBLE, 7.0))
    assert evaluate(guarded, _batch([0, None])).to_pylist() == [7.0, 7.0]


def test_a_literal_has_its_value_on_every_row() -> None:
    assert evaluate(Literal(INT, 5), _batch([1, 2])).to_pylist() == [5, 5]
    assert evaluate(Literal(STRING, None), _batch([1])).to_pylist() == [None]
    assert evaluate(call("pi"), _batch([1])).to_pylist() == [np.pi]


def test_foreign_values_are_columns_of_the_rows() -> None:
    expr = Foreign(STRING, "md5(`s`)", frozenset({2}))
    rows = pa.record_batch({"s": pa.array(["x"]), expr.key: pa.array(["hash"])})
    assert evaluate(call("upper", expr), Batch(rows, Arrival.at(0, 1))).to_pylist() == ["HASH"]


def test_functions_without_kernel_are_refused() -> None:
    with pytest.raises(ValueError, match="md5 has no kernel"):
        evaluate(Call(STRING, "md5", (S,)), _batch([1]))


def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def too_few(values: pa.Array) -> pa.Array:
    return values[:1]


def failing(values: pa.Array) -> pa.Array:
    raise RuntimeError("boom")


def test_python_functions() -> None:
    here = f"{__name__}:"
    assert evaluate(Call(INT, "python", (A,), here + "doubled"), _batch([1, None])).to_pylist() == [2, None]
    with pytest.raises(EvaluationError, match="returned 1, not 2 values of INT"):
        evaluate(Call(INT, "python", (A,), here + "too_few"), _batch([1, 2]))
    with pytest.raises(EvaluationError, match="failing failed: RuntimeError: boom"):
        evaluate(Call(INT, "python", (A,), here + "failing"), _batch([1]))
    with pytest.raises(ValueError, match="cannot import the Python function nowhere:f"):
        evaluate(Call(INT, "python", (A,), "nowhere:f"), _batch([1]))


def test_pickled_expressions_leave_compiled_programs_behind() -> None:
    expr = call("gt", A, _int(1))
    evaluate(expr, _batch([1]))
    again = pickle.loads(pickle.dumps(expr))
    assert evaluate(again, _batch([1, 2])).to_pylist() == [False, True]


def test_errors_can_be_pickled() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(_inverse(A), _batch([0]))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.condition == "DIVIDE_BY_ZERO"


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_sliced_batches(rows: int) -> None:
    whole = _batch([0, 1, 2, None, 4, 5], s=["a", None, "ccc", "dd", "é", ""])
    part = Batch(whole.rows.slice(2, rows), Arrival.at(0, rows))
    for expr in (call("add", A, _int(1)), call("length", S), call("upper", S), call("round", cast(A, FLOAT))):
        assert evaluate(expr, part).to_pylist() == evaluate(expr, whole).to_pylist()[2 : 2 + rows]
