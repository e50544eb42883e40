"""The forms of expressions that are not plain calls: constants, CASE, LIKE, CAST, EXTRACT and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.sql import literals
from headgate.sql.catalyst import catalyst
from headgate.sql.columns import arrow_type
from headgate.sql.dialect import start
from headgate.sql.errors import Script, closest
from headgate.sql.intervals import FIELDS, interval, interval_fields, months

if TYPE_CHECKING:
    from headgate.sql.expressions import ExpressionBinder

_PARTS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    "yearofweek": "yearofweek",
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "date_part"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "extract_seconds"),
}
"""The function that gives a part of a date or time, by Spark's names of the part."""

_INTERVAL_PARTS = {
    "day": ("day", "interval_days"),
    "hour": ("hour", "interval_hours"),
    "minute": ("minute", "interval_minutes"),
    "extract_seconds": ("second", "interval_seconds"),
}
"""By function of a time: the same field of an interval, and the function that extracts it."""


def _literal(binder: ExpressionBinder, node: exp.Literal) -> Expr:
    if node.is_string:
        return Literal(t.STRING, node.this)
    return literals.number(node.this, binder.script, start(node))


def _rawstring(binder: ExpressionBinder, node: exp.RawString) -> Expr:
    return Literal(t.STRING, node.this)


def _hexstring(binder: ExpressionBinder, node: exp.HexString) -> Expr:
    return literals.binary(node.this, binder.script, start(node))


def _boolean(binder: ExpressionBinder, node: exp.Boolean) -> Expr:
    return Literal(t.BOOLEAN, bool(node.this))


def _null(binder: ExpressionBinder, node: exp.Null) -> Expr:
    return Literal(t.NULL, None)


def _interval(binder: ExpressionBinder, node: exp.Interval) -> Expr:
    return interval(node, binder.script)


def _concat(binder: ExpressionBinder, node: exp.Concat) -> Expr:
    """Adjacent string constants; the function concat() is a plain call."""
    return Literal(t.STRING, "".join(part.name for part in node.expressions))


def _paren(binder: ExpressionBinder, node: exp.Paren) -> Expr:
    return binder.bind(node.this)


def _neg(binder: ExpressionBinder, node: exp.Neg) -> Expr:
    number = written_number(binder.script, node.this)
    if number is not None:
        return literals.number(f"-{number}", binder.script, start(node))
    return binder.call("negative", [node.this], node)


def written_number(script: Script, node: exp.Expr) -> str | None:
    """The text of a number, with its suffix; None if the node is not a number. (sqlglot reads 128Y as a cast.)"""
    if isinstance(node, exp.Literal) and not node.is_string:
        return str(node.this)
    return literals.suffixed(script, start(node)) if isinstance(node, exp.Cast) else None


def _not(binder: ExpressionBinder, node: exp.Not) -> Expr:
    return binder.call("not", [node.this], node)


def _bitwisenot(binder: ExpressionBinder, node: exp.BitwiseNot) -> Expr:
    return binder.call("bitnot", [node.this], node)


def _nullsafeneq(binder: ExpressionBinder, node: exp.NullSafeNEQ) -> Expr:
    return _negated(binder, binder.call("eq_null_safe", [node.this, node.expression], node))


def _negated(binder: ExpressionBinder, expr: Expr) -> Expr:
    return binder.folded(Call(t.BOOLEAN, "not", (expr,)))


def _is(binder: ExpressionBinder, node: exp.Is) -> Expr:
    if isinstance(node.expression, exp.Null):
        return binder.call("is_null", [node.this], node)
    if isinstance(node.expression, exp.Boolean):
        return binder.call("is_true" if node.expression.this else "is_false", [node.this], node)
    raise binder.error("IS takes NULL, TRUE, FALSE or DISTINCT FROM", node)


def _between(binder: ExpressionBinder, node: exp.Between) -> Expr:
    if node.args.get("symmetric"):
        raise binder.error("BETWEEN SYMMETRIC is not supported; write the smaller bound first", node)
    value = binder.bind(node.this)
    at = start(node.this)
    terms = []
    for name, side in (("ge", node.args["low"]), ("le", node.args["high"])):
        terms.append(binder.apply(name, [value, binder.bind(side)], node, [at, start(side)]))
    return binder.folded(Call(t.BOOLEAN, "and", tuple(terms)))


def _in(binder: ExpressionBinder, node: exp.In) -> Expr:
    if node.args.get("query") is not None or any(isinstance(e, exp.Query) for e in node.expressions):
        raise binder.error("IN (SELECT …) is not supported; write LEFT SEMI JOIN … ON …", node)
    if not node.expressions:
        raise binder.error("IN needs a list of values", node)
    return binder.call("in", [node.this, *node.expressions], node)


def _like(binder: ExpressionBinder, node: exp.Like) -> Expr:
    return _pattern(binder, "like", node)


def _ilike(binder: ExpressionBinder, node: exp.ILike) -> Expr:
    return _pattern(binder, "ilike", node)


def _pattern(binder: ExpressionBinder, name: str, node: exp.Expr, escape: exp.Expr | None = None) -> Expr:
    pattern = node.expression
    if isinstance(pattern, (exp.Any, exp.All, exp.Tuple)):
        raise binder.error("LIKE ANY and LIKE ALL are not supported; join several LIKE by OR or AND", node)
    args = [node.this, pattern] + ([escape] if escape is not None else [])
    found = binder.call(name, args, node)
    return _negated(binder, found) if node.args.get("negate") else found


def _escape(binder: ExpressionBinder, node: exp.Escape) -> Expr:
    inner = node.this
    if isinstance(inner, (exp.Like, exp.ILike)):
        return _pattern(binder, "ilike" if isinstance(inner, exp.ILike) else "like", inner, node.expression)
    raise binder.error("ESCAPE belongs to LIKE", node)


def _case(binder: ExpressionBinder, node: exp.Case) -> Expr:
    args: list[Expr] = []
    places: list[int] = []
    operand = node.args.get("this")
    subject = binder.bind(operand) if operand is not None else None
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this)
        if subject is not None:
            when = binder.apply("eq", [subject, when], branch, [start(branch.this)] * 2)
        args += [when, binder.bind(branch.args["true"])]
        places += [start(branch.this), start(branch.args["true"])]
    default = node.args.get("default")
    args.append(binder.bind(default) if default is not None else Literal(t.NULL, None))
    places.append(start(default) if default is not None else start(node))
    return binder.apply("case", args, node, places)


def _if(binder: ExpressionBinder, node: exp.If) -> Expr:
    false = node.args.get("false")
    if false is None:
        raise binder.error("if takes a condition and two results", node)
    return binder.call("if", [node.this, node.args["true"], false], node)


def _cast(binder: ExpressionBinder, node: exp.Cast) -> Expr:
    number = written_number(binder.script, node)
    if number is not None:
        return literals.number(number, binder.script, start(node))
    if literals.is_time_literal(binder.script, start(node)) and isinstance(node.this, exp.Literal):
        return literals.time_of_day(node.this.name, binder.script, start(node))
    return _cast_to(binder, "cast", node)


def _trycast(binder: ExpressionBinder, node: exp.TryCast) -> Expr:
    return _cast_to(binder, "try_cast", node)


def _cast_to(binder: ExpressionBinder, name: str, node: exp.Expr) -> Expr:
    if node.args.get("format") is not None:
        raise binder.error("CAST takes no FORMAT; use to_date or to_timestamp with a pattern", node)
    target = node.args["to"]
    at = start(target) if target.meta.get("start") is not None else start(node)
    if not isinstance(target, exp.DataType):
        raise binder.error(f"{target.sql(dialect='spark')} is not a type", at)
    value = binder.bind(node.this)
    type_ = arrow_type(target, binder.script, at)
    bound = binder.cast(value, type_, node, name)
    # DATE 'x' and TIMESTAMP 'x' cast a constant: a malformed one would fail on every row, so it is refused here.
    malformed = isinstance(bound, Call) and isinstance(value, Literal) and value.type == t.STRING
    if name == "cast" and malformed and type_ in (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ):
        example = "2024-01-31" if type_ == t.DATE else "2024-01-31 12:30:00"
        message = f"'{value.value}' is not a {t.sql_name(type_)}; write for example '{example}'"  # type: ignore[attr-defined]
        raise binder.error(message, node)
    return bound


def _extract(binder: ExpressionBinder, node: exp.Extract) -> Expr:
    return _part(binder, node.name, node.expression, node)


def date_part(binder: ExpressionBinder, node: exp.Anonymous) -> Expr:
    """date_part('year', ts), the same as EXTRACT."""
    part, value = node.expressions
    if not (isinstance(part, exp.Literal) and part.is_string):
        raise binder.error("date_part takes a constant such as 'year' as its first argument", part)
    return _part(binder, part.this, value, node)


def _part(binder: ExpressionBinder, word: str, value: exp.Expr, node: exp.Expr) -> Expr:
    part = word.lower()
    name = _PARTS.get(part)
    if name is None:
        hint = "; write unix_timestamp(…)" if part == "epoch" else closest(part, _PARTS)
        raise binder.error(f"cannot extract {word}{hint}", node)
    bound = binder.bind(value)
    if bound.type == t.INTERVAL:
        return _interval_part(binder, name, word, bound, node)
    if name == "date_part":
        return catalyst(binder, Call(t.INT, name, (Literal(t.STRING, part.upper()), bound)), node)
    return binder.apply(name, [bound], node, [start(value)])


def _interval_part(binder: ExpressionBinder, name: str, word: str, value: Expr, node: exp.Expr) -> Expr:
    field, function = _INTERVAL_PARTS.get(name, ("", ""))
    first, last = interval_fields(value)
    if field not in FIELDS[FIELDS.index(first) : FIELDS.index(last) + 1]:
        fields = first.upper() if first == last else f"{first.upper()} TO {last.upper()}"
        raise binder.error(f"cannot extract {word} from an INTERVAL {fields}", node)
    return binder.apply(function, [value], node, [start(node)])


def _moved(binder: ExpressionBinder, node: exp.Expr) -> Expr:
    """Plus and minus: months and years are added to a date or time, days to a date; all else is arithmetic."""
    sign = -1 if isinstance(node, exp.Sub) else 1
    first, second = node.this, node.expression
    if sign == 1 and isinstance(first, exp.Interval):
        first, second = second, first
    moved = months(second, binder.script) if isinstance(second, exp.Interval) else None
    if moved is None:
        return _summed(binder, "subtract" if sign == -1 else "add", node)
    value = binder.bind(first)
    return binder.apply("plus_months", [value, Literal(t.INT, sign * moved)], node, [start(first), start(second)])


def _summed(binder: ExpressionBinder, name: str, node: exp.Expr) -> Expr:
    args = [binder.bind(node.this), binder.bind(node.expression)]
    first, second = args
    # A date plus days is a date; plus hours or smaller units it is a timestamp.
    if _dated(first, second) or (name == "add" and _dated(second, first)):
        return binder.folded(Call(t.DATE, name, tuple(args)))
    return binder.apply(name, args, node, [start(node.this), start(node.expression)])


def _dated(date: Expr, moved: Expr) -> bool:
    return date.type == t.DATE and moved.type == t.INTERVAL and interval_fields(moved) == ("day", "day")


def _trim(binder: ExpressionBinder, node: exp.Trim) -> Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    characters = node.args.get("expression")
    return binder.call(name, [node.this] if characters is None else [node.this, characters], node)


def _substring(binder: ExpressionBinder, node: exp.Substring) -> Expr:
    args = [node.this, *(a for a in (node.args.get("start"), node.args.get("length")) if a is not None)]
    return binder.call("substring", args, node)


def _strposition(binder: ExpressionBinder, node: exp.StrPosition) -> Expr:
    position = node.args.get("position")
    args = [node.args["substr"], node.this] + ([position] if position is not None else [])
    return binder.call("locate", args, node)


def _overlay(binder: ExpressionBinder, node: exp.Overlay) -> Expr:
    args = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
    return binder.call("overlay", [a for a in args if a is not None], node)


FORMS: dict[type[exp.Expr], Callable[[ExpressionBinder, Any], Expr]] = {
    exp.Literal: _literal,
    exp.RawString: _rawstring,
    exp.HexString: _hexstring,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Interval: _interval,
    exp.Concat: _concat,
    exp.Paren: _paren,
    exp.Neg: _neg,
    exp.Not: _not,
    exp.BitwiseNot: _bitwisenot,
    exp.NullSafeNEQ: _nullsafeneq,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.ILike: _ilike,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _trycast,
    exp.Add: _moved,
    exp.Sub: _moved,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.StrPosition: _strposition,
    exp.Overlay: _overlay,
}
