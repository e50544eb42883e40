"""Types of string functions."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import common_type, implicit
from headgate.expressions.signature import (
    Literals,
    Rule,
    Signature,
    Types,
    WrongArguments,
    count_arguments,
    function,
)
from headgate.expressions.typing_rules.patterns import java_regex, like_regex, replacement
from headgate.graph.types import BINARY, BOOLEAN, INT, NULL, STRING

_STRINGS = pa.list_(STRING)


def _takes(
    wanted: tuple[pa.DataType, ...], result: pa.DataType, least: int | None = None, constant: tuple[int, ...] = ()
) -> Rule:
    """A rule for fixed types; the arguments at the `constant` positions must be literals for a kernel to do it."""

    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, len(wanted) if least is None else least, len(wanted))
        args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=False)))
        native = all(i >= len(types) or is_literal(types[i], literals[i]) for i in constant)
        return Signature(name, args, result, native)

    return rule


def is_literal(type_: pa.DataType, value: object | None) -> bool:
    """Whether an argument is a constant: a value, or a NULL without type."""
    return value is not None or type_ == NULL


for _name, _aliases in {"upper": ("ucase",), "lower": ("lcase",), "initcap": ()}.items():
    function(_name, *_aliases)(_takes((STRING,), STRING))
for _name in ("ltrim", "rtrim"):
    function(_name)(_takes((STRING, STRING), STRING, 1, (1,)))
function("trim", "btrim")(_takes((STRING, STRING), STRING, 1, (1,)))
function("ascii")(_takes((STRING,), INT))
function("repeat")(_takes((STRING, INT), STRING))
function("space")(_takes((INT,), STRING))
function("left")(_takes((STRING, INT), STRING))
function("right")(_takes((STRING, INT), STRING))
function("replace")(_takes((STRING, STRING, STRING), STRING, 2, (1, 2)))
function("translate")(_takes((STRING, STRING, STRING), STRING, None, (1, 2)))
function("substring_index")(_takes((STRING, STRING, INT), STRING, None, (1, 2)))
function("instr")(_takes((STRING, STRING), INT, None, (1,)))
function("locate", "position", "charindex")(_takes((STRING, STRING, INT), INT, 2, (0, 2)))
for _name in ("contains", "startswith", "endswith"):
    function(_name)(_takes((STRING, STRING), BOOLEAN, None, (1,)))


def _bytes_or_string(result: pa.DataType) -> Rule:
    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, 1)
        wanted = BINARY if types[0] == BINARY else implicit(name, 0, types[0], STRING)
        return Signature(name, (wanted,), result)

    return rule


function("length", "char_length", "character_length", "len")(_bytes_or_string(INT))
function("octet_length")(_bytes_or_string(INT))
function("bit_length")(_bytes_or_string(INT))


@function("reverse")
def _reverse(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if pa.types.is_list(types[0]):
        return Signature(name, types, types[0], native=False)
    return Signature(name, (implicit(name, 0, types[0], STRING),), STRING)


@function("substring", "substr", "mid")
def _substring(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    if types[0] == BINARY:
        return Signature(name, (BINARY, *(INT,) * (len(types) - 1)), BINARY, native=False)
    rest = tuple(implicit(name, i + 1, t, INT) for i, t in enumerate(types[1:]))
    return Signature(name, (implicit(name, 0, types[0], STRING), *rest), STRING)


def _pad(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    if types[0] == BINARY:
        return Signature(name, types, BINARY, native=False)
    wanted = (STRING, INT, STRING)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    return Signature(name, args, STRING, native=all(map(is_literal, types[1:], literals[1:])))


function("lpad")(_pad)
function("rpad")(_pad)


@function("concat")
def _concat(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    if any(pa.types.is_list(t) for t in types):
        common = common_type(types, "the arguments of concat")
        return Signature(name, (common,) * len(types), common, native=False)
    if all(t == BINARY for t in types):
        return Signature(name, types, BINARY)
    return Signature(name, tuple(implicit(name, i, t, STRING) for i, t in enumerate(types)), STRING)


@function("concat_ws")
def _concat_ws(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    nested = any(pa.types.is_list(t) for t in types)
    args = tuple(t if t == _STRINGS else implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, STRING, native=not nested and len(types) > 1)


def _split_part_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return literals[2] is None or literals[2] == 0


@function("split_part", fails=_split_part_fails)
def _split_part(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, (STRING, STRING, INT), strict=True)))
    native = is_literal(types[1], literals[1]) and is_literal(types[2], literals[2]) and literals[2] != 0
    return Signature(name, args, STRING, native)


@function("split")
def _split(name: str, types: Types, literals: Literals) -> Signature:
    """Native where the pattern is plain text: Java's rules for empty matches are its own."""
    count_arguments(name, types, 2, 3)
    wanted = (STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    native = len(types) == 2 and found is not None and found.plain is not None and found.plain != ""
    return Signature(name, args, _STRINGS, native)


@function("like")
def _like(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: value, pattern and optionally the escape character."""
    count_arguments(name, types, 2, 3)
    args = tuple(implicit(name, i, t, STRING) for i, t in enumerate(types))
    escape = str(literals[2]) if len(types) == 3 and literals[2] is not None else "\\"
    if len(escape) != 1:
        raise WrongArguments(f"the escape of LIKE is one character, not '{escape}'", 2)
    if isinstance(literals[1], str):
        try:
            like_regex(literals[1], escape)
        except ValueError as error:
            raise WrongArguments(str(error), 1) from error
    return Signature(name, args, BOOLEAN, native=is_literal(types[1], literals[1]))


function("ilike")(_like)


@function("rlike", "regexp", "regexp_like")
def _rlike(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = tuple(implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, BOOLEAN, native=isinstance(literals[1], str) and java_regex(literals[1]) is not None)


@function("regexp_extract")
def _regexp_extract(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    wanted = (STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    group = literals[2] if len(types) == 3 else 1
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    if found is not None and isinstance(group, int) and not 0 <= group <= found.groups:
        raise WrongArguments(f"the pattern has {found.groups} groups, so there is no group {group}", len(types) - 1)
    return Signature(name, args, STRING, native=found is not None and isinstance(group, int) and found.extracts)


@function("regexp_replace")
def _regexp_replace(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3, 4)
    wanted = (STRING, STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    native = len(types) == 3 and found is not None and found.replaces and isinstance(literals[2], str)
    if native and found is not None:
        native = replacement(str(literals[2]), found.groups) is not None
    return Signature(name, args, STRING, native)
