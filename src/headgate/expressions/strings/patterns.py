"""LIKE and regular expressions, for patterns that RE2 matches as Java does."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.coercion import implicit
from headgate.expressions.kernels import Kernel, Value, all_null, arrays, arrow, constant, null_literal
from headgate.expressions.registry import function, kernel_of
from headgate.expressions.rules import is_literal
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.strings.regex import Pattern, java_regex, like_regex, replacement
from headgate.graph.expressions import Call
from headgate.graph.types import BOOLEAN, INT, STRING


def _like_types(name: str, types: Types, literals: Literals) -> Signature:
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


@function("like", "ilike", types=_like_types)
def _like(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    escape = str(constant(call, 2)) if len(call.args) == 3 else "\\"
    source = str(constant(call, 1))
    if call.name == "ilike":
        lower = kernel_of(Call(STRING, "lower", call.args[:1]))
        match = _matcher(source.lower(), escape)
        return lambda value, *_: match(lower(value))
    match = _matcher(source, escape)
    return lambda value, *_: match(value)


def _matcher(source: str, escape: str) -> Kernel:
    pattern = like_regex(source, escape)
    if pattern.kind == "equal":
        text = pa.scalar(pattern.text)
        return lambda value: pc.equal(value, text)
    names = {"prefix": "starts_with", "suffix": "ends_with", "inside": "match_substring"}
    name = names.get(pattern.kind, "match_substring_regex")
    return arrow(name, pc.MatchSubstringOptions(pattern.text))


def _pattern(call: Call) -> Pattern:
    found = java_regex(str(constant(call, 1)))
    if found is None:
        raise ValueError(f"the pattern of {call.name} means something else to RE2; Spark must compute it")
    return found


def _rlike_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = tuple(implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, BOOLEAN, native=isinstance(literals[1], str) and java_regex(literals[1]) is not None)


@function("rlike", types=_rlike_types, aliases={"regexp": "rlike", "regexp_like": "rlike"})
def _rlike(call: Call) -> Kernel:
    pattern = _pattern(call)
    if pattern.plain is not None:
        run = arrow("match_substring", pc.MatchSubstringOptions(pattern.plain))
    else:
        run = arrow("match_substring_regex", pc.MatchSubstringOptions(pattern.text))
    return lambda value, _: run(value)


def _regexp_extract_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    wanted = (STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    group = literals[2] if len(types) == 3 else 1
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    if found is not None and isinstance(group, int) and not 0 <= group <= found.groups:
        raise WrongArguments(f"the pattern has {found.groups} groups, so there is no group {group}", len(types) - 1)
    return Signature(name, args, STRING, native=found is not None and isinstance(group, int) and found.extracts)


@function("regexp_extract", types=_regexp_extract_types)
def _regexp_extract(call: Call) -> Kernel:
    """The empty string where nothing matches."""
    pattern = _pattern(call)
    group = int(str(constant(call, 2))) if len(call.args) == 3 else 1
    run = arrow("extract_regex", pc.ExtractRegexOptions(pattern.named()))
    empty, nothing = pa.scalar(""), pa.scalar(None, STRING)

    def extract(value: Value, *_: Value) -> Value:
        text = arrays(value)[0]
        found = pc.struct_field(run(text), f"g{group}")
        return pc.if_else(pc.is_valid(text), pc.fill_null(found, empty), nothing)

    return extract


def _regexp_replace_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3, 4)
    wanted = (STRING, STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    native = len(types) == 3 and found is not None and found.replaces and isinstance(literals[2], str)
    if native and found is not None:
        native = replacement(str(literals[2]), found.groups) is not None
    return Signature(name, args, STRING, native)


@function("regexp_replace", types=_regexp_replace_types)
def _regexp_replace(call: Call) -> Kernel:
    pattern = _pattern(call)
    new = replacement(str(constant(call, 2)), pattern.groups)
    if new is None:
        raise ValueError("the replacement text is not valid")
    run = arrow("replace_substring_regex", pc.ReplaceSubstringOptions(pattern.text, new))
    return lambda value, *_: run(value)
