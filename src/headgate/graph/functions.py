"""The catalogue of functions: what each is called, what it takes and gives, and whether it may fail."""

from __future__ import annotations

import pyarrow as pa


def may_fail(name: str, args: tuple[pa.DataType, ...], result: pa.DataType) -> bool:
    """Whether a call may raise on some row (ANSI overflow, division by zero, a malformed cast …)."""
    return name not in {"eq", "lt"}
