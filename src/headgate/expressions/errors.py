"""The error of an expression that fails on some row, in Spark's words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class EvaluationError(ValueError):
    """An expression failed on a row. `condition` is Spark's name for it, for example DIVIDE_BY_ZERO."""

    def __init__(self, condition: str, message: str) -> None:
        self.condition = condition
        super().__init__(f"[{condition}] {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        text = str(self)
        return (EvaluationError, (self.condition, text[len(self.condition) + 3 :]))


def divide_by_zero() -> EvaluationError:
    return EvaluationError(
        "DIVIDE_BY_ZERO", "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead."
    )


def remainder_by_zero() -> EvaluationError:
    return EvaluationError(
        "REMAINDER_BY_ZERO", "Remainder by zero. Use `try_mod` to tolerate divisor being 0 and return NULL instead."
    )


def overflow(what: str, hint: str = "") -> EvaluationError:
    suggestion = f" Use `{hint}` to tolerate overflow and return NULL instead." if hint else ""
    return EvaluationError("ARITHMETIC_OVERFLOW", f"{what}.{suggestion}")


def first_true(bad: pa.BooleanArray) -> int | None:
    """The position of the first true, or None."""
    position = pc.index(bad, True).as_py()
    return None if position < 0 else int(position)
