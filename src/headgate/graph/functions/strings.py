"""Types of string functions and pattern matching."""

from __future__ import annotations

from headgate.graph.functions.coercion import implicit
from headgate.graph.functions.signature import Literals, Rule, Signature, Types, count_arguments, function
from headgate.graph.types import BINARY, BOOLEAN, INT, STRING


def _strings(least: int, most: int | None = None, result: object = STRING) -> Rule:
    """A rule for functions that take only strings."""

    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, least, most)
        return Signature(name, tuple(implicit(name, i, t, STRING) for i, t in enumerate(types)), result)

    return rule


for _name, _aliases in {"upper": ("ucase",), "lower": ("lcase",), "reverse": (), "trim": ("btrim",)}.items():
    function(_name, *_aliases)(_strings(1, 1))


@function("length", "char_length", "character_length", "len")
def _length(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    wanted = BINARY if types[0] == BINARY else implicit(name, 0, types[0], STRING)
    return Signature(name, (wanted,), INT)


@function("concat")
def _concat(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    return Signature(name, tuple(implicit(name, i, t, STRING) for i, t in enumerate(types)), STRING)


for _name in ("contains", "startswith", "endswith"):
    function(_name)(_strings(2, 2, BOOLEAN))
