"""try_add and the other try_ functions: NULL on the rows where the plain function fails."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.expressions.registry import FUNCTIONS, function, kernel_of
from headgate.expressions.signature import Literals, Signature, Types
from headgate.graph.expressions import Call


def _trying_types(name: str, types: Types, literals: Literals) -> Signature:
    plain = name.removeprefix("try_")
    found = FUNCTIONS[plain].types(plain, types, literals)  # type: ignore[misc]
    return Signature(name, found.args, found.result, found.native, zoned=found.zoned)


@function("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "try_element_at", types=_trying_types)
def _try(call: Call) -> Kernel:
    name = call.name.removeprefix("try_")
    run = kernel_of(Call(call.type, name, call.arguments, call.option))
    return tolerant(run, call.type)


def tolerant(run: Kernel, type_: pa.DataType) -> Kernel:
    """Finds the failing rows by bisection; costs one kernel call where nothing fails."""

    def attempt(*args: Value) -> pa.Array:
        columns = arrays(*args)
        rows = len(columns[0])
        try:
            return run(*columns)
        except EvaluationError:
            if rows == 1:
                return pa.nulls(1, type_)
        middle = rows // 2
        halves = [attempt(*[c[:middle] for c in columns]), attempt(*[c[middle:] for c in columns])]
        return pa.concat_arrays(halves)

    return attempt
