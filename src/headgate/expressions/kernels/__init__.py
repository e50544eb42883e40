"""Kernels: what each native function of the catalogue does to Arrow arrays."""

from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import (  # noqa: F401 - importing a module enters its kernels
    arithmetic,
    casts,
    collections,
    comparison,
    dates,
    formats,
    mathematics,
    operators,
    patterns,
    python,
    rounding,
    strings,
    times,
    trying,
)
from headgate.expressions.registry import KERNELS, Kernel, Value, array_of

__all__ = ["KERNELS", "EvaluationError", "Kernel", "Value", "array_of"]
