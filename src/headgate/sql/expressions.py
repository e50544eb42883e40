"""Binds expressions: syntax trees to typed expressions over a relation's columns, with Spark's coercions as casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headgate.graph import functions
from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.functions.coercion import implicit
from headgate.sql import literals
from headgate.sql.catalyst import catalyst
from headgate.sql.columns import arrow_type
from headgate.sql.context import Context
from headgate.sql.dialect import start
from headgate.sql.errors import Script, SqlError, closest
from headgate.sql.fold import fold
from headgate.sql.relation import Output, Relation
from headgate.sql.windows import WINDOW_FUNCTIONS, window_call

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "eq_null_safe",
    exp.And: "and",
    exp.Or: "or",
    exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "bitand",
    exp.BitwiseOr: "bitor",
    exp.BitwiseXor: "bitxor",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
    exp.DPipe: "concat",
}
_BARE = {exp.CurrentDate: "current_date", exp.CurrentTimestamp: "current_timestamp", exp.CurrentUser: "current_user"}
_NOT_A_VALUE: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery is not supported as a value; join with it in FROM",
    exp.Exists: "EXISTS is not supported; write LEFT SEMI JOIN … ON …, or LEFT ANTI JOIN for NOT EXISTS",
    exp.Select: "a subquery is not supported as a value; join with it in FROM",
    exp.Star: "* stands alone in a SELECT list or in count(*)",
    exp.Placeholder: "parameters are not supported; write the value",
    exp.Parameter: "parameters are not supported; write the value",
    exp.JSONExtract: "-> is only for functions of arrays and maps",
    exp.Lambda: "-> is only for functions of arrays and maps",
    exp.Tuple: "a list in parentheses is only for IN; write named_struct(…) for a struct",
}

_RANK = "write it with OVER (PARTITION BY … ORDER BY …)"
_ROWS = "it makes several rows of one; do it before the rows enter the stream"
_CHANGING = "it gives another value each time, so results could not be repeated after a restart"
_PLACE = "it tells where Spark read a row, which means nothing for a stream"
_REFUSED = {
    **dict.fromkeys(("row_number", "rank", "dense_rank"), _RANK),
    **dict.fromkeys(("ntile", "lag", "lead", "percent_rank", "cume_dist", "nth_value"), "rank with row_number instead"),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), _ROWS),
    **dict.fromkeys(("inline", "inline_outer", "stack", "json_tuple"), _ROWS),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform"), _CHANGING),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _PLACE),
}

# Spark has a function for each of these types that casts to it.
_CASTS = {
    "boolean": t.BOOLEAN,
    "tinyint": t.TINYINT,
    "smallint": t.SMALLINT,
    "int": t.INT,
    "bigint": t.BIGINT,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "binary": t.BINARY,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
    "decimal": pa.decimal128(10, 0),
}


@dataclass
class Scope:
    """What names mean at one place: the columns of FROM, then names that the SELECT list has given so far."""

    relation: Relation
    aliases: dict[str, Expr] = field(default_factory=dict)
    windows: dict[str, Expr] = field(default_factory=dict)
    aliases_first: bool = False

    def columns(self, qualifier: str | None, name: str) -> list[Output]:
        return [
            c
            for c in self.relation.columns
            if c.name.lower() == name.lower() and (qualifier is None or qualifier.lower() in c.qualifiers)
        ]

    def has_item(self, qualifier: str) -> bool:
        return any(qualifier.lower() in c.qualifiers for c in self.relation.columns)

    @property
    def known(self) -> list[str]:
        return list(dict.fromkeys(c.name for c in self.relation.columns))


class ExpressionBinder:
    """Binds the expressions of one SELECT. `aggregate` and `ranking` bind what is only allowed in some clauses."""

    def __init__(self, context: Context, script: Script, scope: Scope) -> None:
        self.context = context
        self.script = script
        self.scope = scope
        self.aggregate: Callable[[exp.Expr], Expr] | None = None
        self.ranking: Callable[[exp.Window], Expr] | None = None
        self.clause = "here"
        self._depth = 0

    # -- the way in

    def bind(self, node: exp.Expr) -> Expr:
        """The expression that a syntax tree means."""
        self._depth += 1
        if self._depth > 300:
            raise self.error("this expression is nested too deeply", node)
        try:
            return self._bind(node)
        finally:
            self._depth -= 1

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that must be a condition."""
        bound = self.bind(node)
        if bound.type not in (t.BOOLEAN, t.NULL):
            raise self.error(f"{self.clause} takes a condition, and this is {t.sql_name(bound.type)}", node)
        return self.cast(bound, t.BOOLEAN, node)

    def conditions(self, node: exp.Expr) -> tuple[Expr, ...]:
        """The terms of a condition's AND."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.And):
            return self.conditions(node.left) + self.conditions(node.right)
        return (self.condition(node),)

    def error(self, message: str, node: exp.Expr | int) -> SqlError:
        return self.script.error(message, node if isinstance(node, int) else start(node))

    def _bind(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind in _BINARY:
            return self.call(_BINARY[kind], [node.this, node.expression], node)
        if kind in _NOT_A_VALUE:
            raise self.error(_NOT_A_VALUE[kind], node)
        if kind in _BARE:
            return self.call(_BARE[kind], [], node)
        method: Callable[[Any], Expr] | None = getattr(self, f"_bind_{kind.__name__.lower()}", None)
        if method is not None:
            return method(node)
        if isinstance(node, exp.Query):
            raise self.error(_NOT_A_VALUE[exp.Subquery], node)
        raise self.error(f"{node.sql(dialect='spark')[:60]} is not supported", node)

    # -- calls

    def call(self, name: str, args: Sequence[exp.Expr], node: exp.Expr, option: str = "") -> Expr:
        """A call of a function or operator on syntax trees."""
        return self.apply(name, [self.bind(a) for a in args], node, [start(a) for a in args], option)

    def apply(self, name: str, args: Sequence[Expr], node: exp.Expr, places: Sequence[int], option: str = "") -> Expr:
        """A call on bound arguments; `places` are where they stand."""
        values = tuple(a.value if isinstance(a, Literal) else None for a in args)
        types = [a.type for a in args]
        try:
            signature = functions.resolve(name, types, values, option)
        except functions.UnknownFunction as problem:
            return self._unknown(problem, name, args, node)
        except functions.WrongArguments as problem:
            place = problem.position
            at = places[place] if place is not None and place < len(places) else start(node)
            raise self.error(str(problem), at) from None
        cast = tuple(
            self.cast(a, wanted, places[i] if i < len(places) else start(node))
            for i, (a, wanted) in enumerate(zip(args, signature.args, strict=True))
        )
        if signature.zoned and not option:
            option = self.zone
        call = Call(signature.result, signature.name, cast, option)
        if not signature.native:
            return catalyst(self, call, node)
        return fold(call, self.context.time_zone)

    @property
    def zone(self) -> str:
        """The session time zone as an option of a call; empty is UTC."""
        return "" if self.context.time_zone == "UTC" else self.context.time_zone

    def cast(self, expr: Expr, target: pa.DataType, at: exp.Expr | int, name: str = "cast") -> Expr:
        """An expression as another type."""
        if expr.type == target:
            return expr
        try:
            signature = functions.cast_signature(expr.type, target, name)
        except functions.WrongArguments as problem:
            raise self.error(str(problem), at) from None
        call = Call(target, name, (expr,), self.zone if signature.zoned else "")
        folded = fold(call, self.context.time_zone)
        if isinstance(folded, Call) and not signature.native:
            return catalyst(self, call, at)
        return folded

    def _unknown(self, problem: functions.UnknownFunction, name: str, args: Sequence[Expr], node: exp.Expr) -> Expr:
        if self.context.type_of is None:
            names = [n for n in (problem.closest,) if n] or list(self.context.functions)
            raise self.error(f"unknown function {name}{closest(name, names)}", node)
        return catalyst(self, Call(t.NULL, name.lower(), tuple(args)), node, unknown=True)

    def _bind_anonymous(self, node: exp.Anonymous) -> Expr:
        name = node.name.lower()
        if name in WINDOW_FUNCTIONS:
            return window_call(self, name, node)
        if functions.is_aggregate(name):
            return self._aggregated(node)
        if name in self.context.functions:
            return self._python(name, node)
        if name in _CASTS and len(node.expressions) == 1:
            return self.cast(self.bind(node.expressions[0]), _CASTS[name], node)
        if name in _REFUSED:
            raise self.error(f"{name} is not supported: {_REFUSED[name]}", node)
        args = []
        for arg in node.expressions:
            if isinstance(arg, exp.Distinct):
                raise self.error(f"DISTINCT is for aggregates, and {name} is none", node)
            args.append(arg)
        if name == "struct":
            return self._struct(args, node)
        if any(isinstance(a, exp.Lambda) for a in args):
            return catalyst(self, Call(t.NULL, name, ()), node, unknown=True, tree=node)
        for arg in args:
            if isinstance(arg, (exp.Alias, exp.PropertyEQ, exp.Kwarg)):
                raise self.error(f"{name} takes no named arguments", arg)
        if name in ("ltrim", "rtrim") and len(args) == 2:
            args.reverse()  # Spark writes ltrim(characters, text)
        return self.call(name, args, node)

    def _struct(self, args: list[exp.Expr], node: exp.Expr) -> Expr:
        """struct(a, b AS c) is named_struct('a', a, 'c', b)."""
        bound: list[Expr] = []
        places: list[int] = []
        for i, arg in enumerate(args):
            name = arg.alias_or_name or f"col{i + 1}"
            value = arg.this if isinstance(arg, exp.Alias) else arg
            name = name if isinstance(arg, (exp.Alias, exp.Column, exp.Dot)) else f"col{i + 1}"
            bound += [Literal(t.STRING, name), self.bind(value)]
            places += [start(arg), start(value)]
        return self.apply("named_struct", bound, node, places)

    def _python(self, name: str, node: exp.Anonymous) -> Expr:
        function = self.context.functions[name]
        if len(node.expressions) != len(function.parameters):
            count = len(function.parameters)
            plural = "" if count == 1 else "s"
            given = len(node.expressions)
            raise self.error(f"{function.name} takes {count} argument{plural}, not {given}", node)
        args = []
        for i, (arg, wanted) in enumerate(zip(node.expressions, function.parameters, strict=True)):
            bound = self.bind(arg)
            try:
                implicit(function.name, i, bound.type, wanted)
            except functions.WrongArguments as problem:
                hint = f"write CAST(… AS {t.sql_name(wanted)})"
                raise self.error(f"{problem}; {hint}", arg) from None
            args.append(self.cast(bound, wanted, arg))
        return Call(function.returns, "python", tuple(args), function.target)

    def _aggregated(self, node: exp.Expr) -> Expr:
        if self.aggregate is None:
            hint = "; write it in HAVING" if self.clause == "WHERE" else ""
            raise self.error(f"an aggregate is not allowed in {self.clause}{hint}", node)
        return self.aggregate(node)

    def _bind_filter(self, node: exp.Filter) -> Expr:
        return self._aggregated(node)

    def _bind_ignorenulls(self, node: exp.IgnoreNulls) -> Expr:
        return self._aggregated(node)

    def _bind_respectnulls(self, node: exp.RespectNulls) -> Expr:
        return self.bind(node.this)

    def _bind_window(self, node: exp.Window) -> Expr:
        if self.ranking is None:
            raise self.error(f"a window function is not allowed in {self.clause}; compute it in a subquery", node)
        return self.ranking(node)

    # -- names

    def _bind_column(self, node: exp.Column) -> Expr:
        parts = [p for p in (node.args.get(k) for k in ("catalog", "db", "table", "this")) if p is not None]
        if isinstance(node.this, exp.Star):
            raise self.error(_NOT_A_VALUE[exp.Star], node)
        return self.name(parts, node)

    def _bind_identifier(self, node: exp.Identifier) -> Expr:
        return self.name([node], node)

    def name(self, parts: list[exp.Expr], node: exp.Expr) -> Expr:
        """What a dotted name means: a column (perhaps of a named FROM item), then members of structs."""
        names = [p.name for p in parts]
        if self.scope.aliases_first and names[0].lower() in self.scope.aliases:
            return self._members(self.scope.aliases[names[0].lower()], parts[1:])
        if len(names) > 1 and self.scope.has_item(names[0]):
            found = self.scope.columns(names[0], names[1])
            if found:
                return self._members(self._single(found, names[1], node), parts[2:])
        found = self.scope.columns(None, names[0])
        if found:
            return self._members(self._single(found, names[0], node), parts[1:])
        for known in (self.scope.aliases, self.scope.windows):
            if names[0].lower() in known:
                return self._members(known[names[0].lower()], parts[1:])
        if len(names) > 1 and self.scope.has_item(names[0]):
            own = [c.name for c in self.scope.relation.columns if names[0].lower() in c.qualifiers]
            raise self.error(f"{names[0]} has no column {names[1]}{closest(names[1], own)}", parts[1])
        if len(names) > 1:
            items = {q for c in self.scope.relation.columns for q in c.qualifiers}
            hint = closest(names[0], sorted(items) + self.scope.known)
            raise self.error(f"nothing here is called {names[0]}{hint}", node)
        raise self.error(f"unknown column {names[0]}{closest(names[0], self.scope.known)}", node)

    def _single(self, found: list[Output], name: str, node: exp.Expr) -> Expr:
        if len({c.expr for c in found}) > 1 or len(found) > 1:
            where = sorted({q for c in found for q in c.qualifiers})
            hint = f"; write {' or '.join(f'{w}.{name}' for w in where)}" if len(where) > 1 else "; rename one with AS"
            raise self.error(f"column {name} is ambiguous{hint}", node)
        return found[0].expr

    def _members(self, expr: Expr, parts: Sequence[exp.Expr]) -> Expr:
        for part in parts:
            expr = self._member(expr, part)
        return expr

    def _member(self, expr: Expr, part: exp.Expr) -> Expr:
        if pa.types.is_map(expr.type):
            return self.apply("element", [expr, Literal(t.STRING, part.name)], part, [start(part), start(part)])
        if pa.types.is_struct(expr.type):
            own = [f.name for f in expr.type]
            exact = [n for n in own if n.lower() == part.name.lower()]
            if not exact:
                raise self.error(f"the struct has no member {part.name}{closest(part.name, own)}", part)
            return self.apply("field", [expr], part, [start(part)], exact[0])
        raise self.error(f"{t.sql_name(expr.type)} has no members, so .{part.name} means nothing", part)

    def _bind_dot(self, node: exp.Dot) -> Expr:
        if isinstance(node.expression, exp.Star):
            raise self.error(_NOT_A_VALUE[exp.Star], node)
        if isinstance(node.expression, exp.Anonymous):
            raise self.error(f"unknown function {node.sql(dialect='spark')[:60]}; functions have no schema", node)
        return self._member(self.bind(node.this), node.expression)

    def _bind_bracket(self, node: exp.Bracket) -> Expr:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise self.error("write one index in brackets", node)
        base = self.bind(node.this)
        index = node.expressions[0]
        if pa.types.is_struct(base.type) and isinstance(index, exp.Literal) and index.is_string:
            return self._member(base, index)
        return self.apply("element", [base, self.bind(index)], node, [start(node), start(index)])

    # -- constants

    def _bind_literal(self, node: exp.Literal) -> Expr:
        return literals.string(node.this) if node.is_string else literals.number(node.this, self.script, start(node))

    def _bind_rawstring(self, node: exp.RawString) -> Expr:
        return literals.string(node.this)

    def _bind_hexstring(self, node: exp.HexString) -> Expr:
        return literals.binary(node.this, self.script, start(node))

    def _bind_boolean(self, node: exp.Boolean) -> Expr:
        return Literal(t.BOOLEAN, bool(node.this))

    def _bind_null(self, node: exp.Null) -> Expr:
        return Literal(t.NULL, None)

    def _bind_interval(self, node: exp.Interval) -> Expr:
        return literals.interval(node, self.script)

    def _bind_concat(self, node: exp.Concat) -> Expr:
        """Adjacent string constants; the function concat() is a plain call."""
        return literals.string("".join(part.name for part in node.expressions))

    # -- operators with a form of their own

    def _bind_paren(self, node: exp.Paren) -> Expr:
        return self.bind(node.this)

    def _bind_neg(self, node: exp.Neg) -> Expr:
        inner = node.this
        if (
            isinstance(inner, exp.Literal)
            and not inner.is_string
            and inner.this in ("2147483648", "9223372036854775808")
        ):
            narrow = t.INT if inner.this == "2147483648" else t.BIGINT
            return Literal(narrow, -int(inner.this))
        return self.call("negative", [inner], node)

    def _bind_not(self, node: exp.Not) -> Expr:
        return self.call("not", [node.this], node)

    def _bind_bitwisenot(self, node: exp.BitwiseNot) -> Expr:
        return self.call("bitnot", [node.this], node)

    def _bind_nullsafeneq(self, node: exp.NullSafeNEQ) -> Expr:
        return self._negated(self.call("eq_null_safe", [node.this, node.expression], node))

    def _negated(self, expr: Expr) -> Expr:
        return fold(Call(t.BOOLEAN, "not", (expr,)), self.context.time_zone)

    def _bind_is(self, node: exp.Is) -> Expr:
        if isinstance(node.expression, exp.Null):
            return self.call("is_null", [node.this], node)
        if isinstance(node.expression, exp.Boolean):
            return self.call("is_true" if node.expression.this else "is_false", [node.this], node)
        raise self.error("IS takes NULL, TRUE, FALSE or DISTINCT FROM", node)

    def _bind_between(self, node: exp.Between) -> Expr:
        value = self.bind(node.this)
        at = start(node.this)
        terms = []
        for name, side in (("ge", node.args["low"]), ("le", node.args["high"])):
            terms.append(self.apply(name, [value, self.bind(side)], node, [at, start(side)]))
        return fold(Call(t.BOOLEAN, "and", tuple(terms)), self.context.time_zone)

    def _bind_in(self, node: exp.In) -> Expr:
        if node.args.get("query") is not None or any(isinstance(e, exp.Query) for e in node.expressions):
            raise self.error("IN (SELECT …) is not supported; write LEFT SEMI JOIN … ON …", node)
        if not node.expressions:
            raise self.error("IN needs a list of values", node)
        return self.call("in", [node.this, *node.expressions], node)

    def _bind_like(self, node: exp.Like) -> Expr:
        return self._like("like", node)

    def _bind_ilike(self, node: exp.ILike) -> Expr:
        return self._like("ilike", node)

    def _like(self, name: str, node: exp.Expr, escape: exp.Expr | None = None) -> Expr:
        pattern = node.expression
        if isinstance(pattern, (exp.Any, exp.All, exp.Tuple)):
            raise self.error("LIKE ANY and LIKE ALL are not supported; join several LIKE by OR or AND", node)
        args = [node.this, pattern] + ([escape] if escape is not None else [])
        found = self.call(name, args, node)
        return self._negated(found) if node.args.get("negate") else found

    def _bind_escape(self, node: exp.Escape) -> Expr:
        inner = node.this
        if isinstance(inner, (exp.Like, exp.ILike)):
            return self._like("ilike" if isinstance(inner, exp.ILike) else "like", inner, node.expression)
        raise self.error("ESCAPE belongs to LIKE", node)

    def _bind_case(self, node: exp.Case) -> Expr:
        args: list[Expr] = []
        places: list[int] = []
        operand = node.args.get("this")
        subject = self.bind(operand) if operand is not None else None
        for branch in node.args["ifs"]:
            when = self.bind(branch.this)
            if subject is not None:
                when = self.apply("eq", [subject, when], branch, [start(branch.this)] * 2)
            args += [when, self.bind(branch.args["true"])]
            places += [start(branch.this), start(branch.args["true"])]
        default = node.args.get("default")
        args.append(self.bind(default) if default is not None else Literal(t.NULL, None))
        places.append(start(default) if default is not None else start(node))
        return self.apply("case", args, node, places)

    def _bind_if(self, node: exp.If) -> Expr:
        false = node.args.get("false")
        if false is None:
            raise self.error("if takes a condition and two results", node)
        return self.call("if", [node.this, node.args["true"], false], node)

    def _bind_cast(self, node: exp.Cast) -> Expr:
        return self._cast_to("cast", node)

    def _bind_trycast(self, node: exp.TryCast) -> Expr:
        return self._cast_to("try_cast", node)

    def _cast_to(self, name: str, node: exp.Expr) -> Expr:
        if node.args.get("format") is not None:
            raise self.error("CAST takes no FORMAT; use to_date or to_timestamp with a pattern", node)
        target = node.args["to"]
        at = start(target) if target.meta.get("start") is not None else start(node)
        if not isinstance(target, exp.DataType):
            raise self.error(f"{target.sql(dialect='spark')} is not a type", at)
        value = self.bind(node.this)
        type_ = arrow_type(target, self.script, at)
        bound = self.cast(value, type_, node, name)
        # DATE 'x' and TIMESTAMP 'x' are casts of a text: a malformed one is known now, and would fail on every row.
        malformed = isinstance(bound, Call) and isinstance(value, Literal) and value.type == t.STRING
        if name == "cast" and malformed and type_ in (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ):
            example = "2024-01-31" if type_ == t.DATE else "2024-01-31 12:30:00"
            message = f"'{value.value}' is not a {t.sql_name(type_)}; write for example '{example}'"  # type: ignore[attr-defined]
            raise self.error(message, node)
        return bound

    def _bind_extract(self, node: exp.Extract) -> Expr:
        part = node.name.lower()
        part = part if part in _PARTS else part.removesuffix("s")
        name = _PARTS.get(part)
        if name is None:
            raise self.error(f"cannot extract {node.name}{closest(part, _PARTS)}", node)
        if name != "date_part":
            return self.call(name, [node.expression], node)
        value = self.bind(node.expression)
        if not (t.is_time(value.type) or value.type == t.DATE):
            message = f"EXTRACT takes a DATE or a TIMESTAMP, not {t.sql_name(value.type)}"
            raise self.error(message, node.expression)
        # Seconds have a fraction here; the function second() has not.
        type_ = pa.decimal128(8, 6) if part == "second" else t.INT
        return catalyst(self, Call(type_, name, (Literal(t.STRING, part.upper()), value)), node)

    def _bind_trim(self, node: exp.Trim) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        characters = node.args.get("expression")
        return self.call(name, [node.this] if characters is None else [node.this, characters], node)

    def _bind_substring(self, node: exp.Substring) -> Expr:
        args = [node.this, *(a for a in (node.args.get("start"), node.args.get("length")) if a is not None)]
        return self.call("substring", args, node)

    def _bind_strposition(self, node: exp.StrPosition) -> Expr:
        position = node.args.get("position")
        args = [node.args["substr"], node.this] + ([position] if position is not None else [])
        return self.call("locate", args, node)

    def _bind_overlay(self, node: exp.Overlay) -> Expr:
        args = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
        return self.call("overlay", [a for a in args if a is not None], node)


_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "weekofyear",
    "day": "day",
    "dayofweek": "dayofweek",
    "dow": "dayofweek",
    "doy": "dayofyear",
    "hour": "hour",
    "minute": "minute",
    "second": "date_part",
    "yearofweek": "date_part",
    "dayofweek_iso": "date_part",
}
