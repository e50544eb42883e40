"""LIKE and regular expressions, for patterns that mean the same to RE2 as to Java."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.kernels.strings import all_null, constant, null_literal
from headgate.expressions.registry import KERNELS, Kernel, Value, arrays, arrow, kernel
from headgate.expressions.typing_rules.patterns import Pattern, java_regex, like_regex, replacement
from headgate.graph.expressions import Call
from headgate.graph.types import STRING


@kernel("like", "ilike")
def _like(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    escape = str(constant(call, 2)) if len(call.args) == 3 else "\\"
    source = str(constant(call, 1))
    if call.name == "ilike":
        lower = KERNELS["lower"](Call(STRING, "lower", call.args[:1]))
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


@kernel("rlike")
def _rlike(call: Call) -> Kernel:
    pattern = _pattern(call)
    if pattern.plain is not None:
        run = arrow("match_substring", pc.MatchSubstringOptions(pattern.plain))
    else:
        run = arrow("match_substring_regex", pc.MatchSubstringOptions(pattern.text))
    return lambda value, _: run(value)


@kernel("regexp_extract")
def _regexp_extract(call: Call) -> Kernel:
    """The empty text where nothing matches."""
    pattern = _pattern(call)
    group = int(str(constant(call, 2))) if len(call.args) == 3 else 1
    run = arrow("extract_regex", pc.ExtractRegexOptions(pattern.named()))
    empty, nothing = pa.scalar(""), pa.scalar(None, STRING)

    def extract(value: Value, *_: Value) -> Value:
        text = arrays(value)[0]
        found = pc.struct_field(run(text), f"g{group}")
        return pc.if_else(pc.is_valid(text), pc.fill_null(found, empty), nothing)

    return extract


@kernel("regexp_replace")
def _regexp_replace(call: Call) -> Kernel:
    pattern = _pattern(call)
    new = replacement(str(constant(call, 2)), pattern.groups)
    if new is None:
        raise ValueError("the replacement text is not valid")
    run = arrow("replace_substring_regex", pc.ReplaceSubstringOptions(pattern.text, new))
    return lambda value, *_: run(value)
