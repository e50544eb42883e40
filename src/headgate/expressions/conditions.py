"""AND, OR, CASE and coalesce: a branch that may fail is computed only on the rows that reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.casts.cast import cast_fails, native_cast, zoned_cast
from headgate.expressions.coercion import common_type
from headgate.expressions.comparison import comparable, equal, native_comparison
from headgate.expressions.kernels import Kernel, Value, array_of, arrow
from headgate.expressions.registry import Run, branching, fallible, function, kernel_of, typed
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.graph.expressions import Call, Expr
from headgate.graph.types import BOOLEAN, NULL, STRING, sql_name


def _condition(name: str, position: int, type_: pa.DataType) -> pa.DataType:
    if type_ not in (BOOLEAN, NULL, STRING):
        raise WrongArguments(f"{name.upper()} takes conditions, not {sql_name(type_)}", position)
    return BOOLEAN


class Subset:
    """Some rows of a frame: columns are copied when they are first read, and computed values are kept separately."""

    def __init__(self, frame: Any, places: pa.Array) -> None:
        self._rows = frame.rows
        self._places = places
        self._taken: dict[int | str, pa.Array] = {}
        self.computed: dict[Expr, Value] = {}

    @property
    def rows(self) -> Subset:
        return self

    @property
    def num_rows(self) -> int:
        return len(self._places)

    def column(self, which: int | str) -> pa.Array:
        found = self._taken.get(which)
        if found is None:
            found = self._taken[which] = self._rows.column(which).take(self._places)
        return found


def _filled(value: Value, rows: int) -> pa.Array:
    """True where the value is true, else false: no nulls."""
    return pc.fill_null(array_of(value, rows), False)


def _connective_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1 if name == "not" else 2, 1 if name == "not" else 1_000_000)
    args = tuple(_condition(name, i, t) for i, t in enumerate(types))
    return Signature(name, args, BOOLEAN)


@function("not", types=_connective_types, aliases={"!": "not"})
def _not(call: Call) -> Kernel:
    return arrow("invert")


def _truth_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, (_condition(name, 0, types[0]),), BOOLEAN)


@function("is_true", "is_false", "is_not_true", "is_not_false", types=_truth_types)
def _truth(call: Call) -> Kernel:
    wanted = pa.scalar(call.name.endswith("true"))
    negated = "not" in call.name

    def test(a: Value) -> Value:
        found = pc.fill_null(pc.equal(a, wanted), False)
        return pc.invert(found) if negated else found

    return test


@branching("and", "or", types=_connective_types)
def _connective(call: Call, args: Sequence[Run]) -> Run:
    """AND and OR. Terms that cannot fail come first, on all rows; the others on the rows not decided yet."""
    join = pc.get_function("and_kleene" if call.name == "and" else "or_kleene").call
    decided = call.name == "or"
    safe = [run for run, arg in zip(args, call.args, strict=True) if not fallible(arg)]
    risky = [run for run, arg in zip(args, call.args, strict=True) if fallible(arg)]

    def run(frame: Any) -> Value:
        result: Value | None = None
        for term in safe:
            value = term(frame)
            result = value if result is None else join((result, value))
        for term in risky:
            if result is None:
                result = term(frame)
                continue
            rows = frame.rows.num_rows
            known = array_of(result, rows)
            open_rows = pc.invert(_filled(known if decided else pc.invert(known), rows))
            result = join((known, _where(term, frame, open_rows, pa.bool_())))
        return result

    return run


def _where(run: Run, frame: Any, chosen: pa.BooleanArray, type_: pa.DataType) -> pa.Array:
    """The value on the chosen rows, null on the others, which are not computed."""
    places = pc.indices_nonzero(chosen)
    if len(places) == len(chosen):
        return array_of(run(frame), len(chosen))
    if len(places) == 0:
        return pa.nulls(len(chosen), type_)
    values = array_of(run(Subset(frame, places)), len(places))
    back = np.zeros(len(chosen), np.int64)
    back[places.to_numpy()] = np.arange(len(places))
    return values.take(pc.if_else(chosen, pa.array(back), pa.scalar(None, pa.int64())))


def _case_types(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: when, then, when, then, …, else (a missing ELSE is a NULL literal)."""
    count_arguments("CASE", types, 3, 1_000_000)
    if len(types) % 2 == 0:
        raise WrongArguments("CASE takes pairs of WHEN and THEN and one ELSE")
    positions = [i for i in range(len(types) - 1) if i % 2] + [len(types) - 1]
    common = common_type([types[i] for i in positions], "the results of CASE")
    args = [common if i in positions else _condition("WHEN", i, t) for i, t in enumerate(types)]
    return Signature(name, tuple(args), common)


@branching("case", types=_case_types)
def _case(call: Call, args: Sequence[Run]) -> Run:
    """when, then, when, then, …, else."""
    if any(fallible(arg) for arg in call.args[1:]):
        return _guarded_case(call, args)
    whens, thens, otherwise = args[:-1:2], args[1:-1:2], args[-1]
    if len(whens) == 1:
        when, then = whens[0], thens[0]
        choose = pc.get_function("if_else").call

        def simple(frame: Any) -> Value:
            rows = frame.rows.num_rows
            return choose((_filled(when(frame), rows), then(frame), otherwise(frame)))

        return simple

    def run(frame: Any) -> Value:
        rows = frame.rows.num_rows
        conditions = [_filled(w(frame), rows) for w in whens]
        struct = pa.StructArray.from_arrays(conditions, [str(i) for i in range(len(conditions))])
        return pc.case_when(struct, *[t(frame) for t in thens], otherwise(frame))

    return run


def _guarded_case(call: Call, args: Sequence[Run]) -> Run:
    whens, thens, otherwise = args[:-1:2], args[1:-1:2], args[-1]

    def run(frame: Any) -> Value:
        rows = frame.rows.num_rows
        waiting = pa.repeat(True, rows)
        result = pa.nulls(rows, call.type)
        for when, then in zip(whens, thens, strict=True):
            hit = _filled(_where(when, frame, waiting, pa.bool_()), rows)
            result = pc.if_else(hit, _where(then, frame, hit, call.type), result)
            waiting = pc.and_not(waiting, hit)
        return pc.if_else(waiting, _where(otherwise, frame, waiting, call.type), result)

    return run


def _if_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    if types[0] == STRING:
        raise WrongArguments("IF takes a condition, not STRING", 0)
    common = common_type(types[1:], "the results of IF")
    return Signature("case", (_condition("IF", 0, types[0]), common, common), common)


typed("if", types=_if_types, aliases={"iff": "if"})


def _coalesce_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    common = common_type(types, f"the arguments of {name}")
    return Signature(name, (common,) * len(types), common)


def _nvl_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    return replace(_coalesce_types(name, types, literals), name="coalesce")


typed("nvl", "ifnull", types=_nvl_types)


@branching("coalesce", types=_coalesce_types)
def _coalesce(call: Call, args: Sequence[Run]) -> Run:
    if not any(fallible(arg) for arg in call.args[1:]):
        first_valid = pc.get_function("coalesce").call
        return lambda frame: first_valid([a(frame) for a in args])

    def run(frame: Any) -> Value:
        rows = frame.rows.num_rows
        result = array_of(args[0](frame), rows)
        for arg in args[1:]:
            missing = pc.is_null(result)
            result = pc.if_else(missing, _where(arg, frame, missing, call.type), result)
        return result

    return run


def _nvl2_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    common = common_type(types[1:], "the results of nvl2")
    return Signature(name, (types[0], common, common), common)


@branching("nvl2", types=_nvl2_types)
def _nvl2(call: Call, args: Sequence[Run]) -> Run:
    """nvl2(a, b, c) is CASE WHEN a IS NOT NULL THEN b ELSE c."""
    test = Call(pa.bool_(), "is_not_null", call.args[:1])
    first = args[0]
    return _case(Call(call.type, "case", (test, *call.args[1:])), [lambda frame: pc.is_valid(first(frame)), *args[1:]])


def _nullif_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return cast_fails(args[:1], args[1], (None,))


def _nullif_types(name: str, types: Types, literals: Literals) -> Signature:
    """The result keeps the first argument's type; its kernel casts it for the comparison."""
    count_arguments(name, types, 2)
    common = common_type(types, "the arguments of nullif")
    comparable(name, common)
    native = native_cast(types[0], common) and native_comparison("eq", common)
    return Signature(name, (types[0], common), types[0], native, zoned=zoned_cast(types[0], common))


@branching("nullif", types=_nullif_types, fails=_nullif_fails)
def _nullif(call: Call, args: Sequence[Run]) -> Run:
    """nullif(a, b) is CASE WHEN a = b THEN NULL ELSE a; both are compared as b's type."""
    first, second = args
    common = call.args[1].type
    as_common = kernel_of(Call(common, "cast", call.args[:1], call.option))
    nothing = pa.scalar(None, call.type)

    def run(frame: Any) -> Value:
        value = array_of(first(frame), frame.rows.num_rows)
        same = pc.fill_null(equal(as_common(value), second(frame), common), False)
        return pc.if_else(same, nothing, value)

    return run
