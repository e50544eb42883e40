"""Patterns of dates and times (`yyyy-MM-dd HH:mm`) that kernels can write and read."""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])", re.DOTALL)
_FRACTIONS = frozenset("S" * size for size in range(1, 7))
_READABLE = frozenset(("yyyy", "MM", "dd", "HH", "mm", "ss")) | _FRACTIONS
_WRITABLE = _READABLE | frozenset(("yy", "y", "M", "MMM", "MMMM", "d", "H", "m", "s", "E", "EE", "EEE", "EEEE", "a"))
_WRITABLE |= frozenset(("hh", "h", "D", "DDD", "Q"))
# What Java reserves in patterns.
_RESERVED = frozenset("{}#[]")

Token = tuple[str, str]
"""("field", letters) or ("text", what stands there)."""


@lru_cache(maxsize=1024)
def tokens(pattern: str) -> tuple[Token, ...] | None:
    """The parts of a pattern, or None if it is not well formed or uses what Java reserves.

    >>> tokens("yyyy'T'HH")
    (('field', 'yyyy'), ('text', 'T'), ('field', 'HH'))
    """
    out: list[Token] = []
    at = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if match is None:
            return None
        at = match.end()
        if match.group(1) is not None:
            out.append(("text", match.group(1).replace("''", "'") or "'"))
        elif match.group(2) is not None:
            out.append(("field", match.group(0)))
        elif match.group(3) in _RESERVED:
            return None
        else:
            out.append(("text", match.group(3)))
    return tuple(out)


def writable(pattern: object) -> bool:
    """Whether a kernel can write times with it."""
    found = tokens(pattern) if isinstance(pattern, str) else None
    return bool(found) and all(kind == "text" or text in _WRITABLE for kind, text in found or ())


def readable(pattern: object) -> bool:
    """Whether a kernel can read times with it: full-width fields, each once, a date whole or not at all."""
    found = tokens(pattern) if isinstance(pattern, str) else None
    fields = [text for kind, text in found or () if kind == "field"]
    if not fields or not all(f in _READABLE for f in fields):
        return False
    kinds = [f[0] for f in fields]
    if len(set(kinds)) != len(kinds) or not {"y", "M", "d"} <= set(kinds):
        return False
    # Minutes without hours and the like have rules of their own.
    order = [k for k in "HmsS" if k in kinds]
    return order == list("HmsS"[: len(order)])
