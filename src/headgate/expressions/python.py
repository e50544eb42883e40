"""Python functions over Arrow arrays: imported by "module:function"; their results are checked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.expressions.registry import function
from headgate.graph.expressions import Call
from headgate.graph.types import sql_name


def load(place: str) -> Callable[..., Any]:
    """Imports "module:function"; ValueError if there is no such function.

    >>> load("operator:add")(1, 2)
    3
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ValueError(f"a Python function is named 'module:function', not {place!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot import the Python function {place}: {error}") from error
    if not callable(found):
        raise ValueError(f"{place} is not a function")
    return found  # type: ignore[no-any-return]


@function("python", types=None, fails=True)
def _python(call: Call) -> Kernel:
    function = load(call.option)

    def run(*args: Value) -> Value:
        columns = arrays(*args)
        try:
            result = function(*columns)
            if isinstance(result, pa.ChunkedArray):
                result = result.combine_chunks()
            if not isinstance(result, pa.Array):
                result = pa.array(result)
            if result.type != call.type:
                result = result.cast(call.type)
        except Exception as error:
            message = f"The function {call.option} failed: {type(error).__name__}: {error}"
            raise EvaluationError("FAILED_EXECUTE_UDF", message) from error
        if len(result) != len(columns[0]):
            wanted = f"{len(columns[0])} values of {sql_name(call.type)}"
            message = f"The function {call.option} returned {len(result)}, not {wanted}."
            raise EvaluationError("FAILED_EXECUTE_UDF", message)
        return result

    return run
