"""Binds expressions: syntax trees to typed expressions over a relation's columns, with Spark's coercions as casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headgate.expressions import functions
from headgate.expressions.coercion import implicit
from headgate.expressions.constants import fold_call
from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.sql.catalyst import catalyst
from headgate.sql.context import Context, PythonFunction
from headgate.sql.dialect import start
from headgate.sql.errors import Script, SqlError, closest
from headgate.sql.forms import FORMS, date_part
from headgate.sql.intervals import DayTimeInterval, interval_fields
from headgate.sql.relation import NamedColumn
from headgate.sql.scope import Scope
from headgate.sql.windows import WINDOW_FUNCTIONS, window_call

_BINARY: dict[type[exp.Expr], str] = {
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
    exp.AtTimeZone: "AT TIME ZONE is not supported; write from_utc_timestamp(…, 'zone') or to_utc_timestamp(…, 'zone')",
    exp.Tuple: "a list in parentheses is only for IN; write named_struct(…) for a struct",
}

_RANK = "write it with OVER (PARTITION BY … ORDER BY …)"
_ROWS = "it makes several rows of one; do it before the rows enter the stream"
_CHANGING = "it gives another value each time, so results could not be repeated after a restart"
_PLACE = "it tells where Spark read a row, which means nothing for a stream"
_WINDOW = "group by window(ts, 'length'[, 'slide'])"
_REFUSED = {
    **dict.fromkeys(("tumble", "tumble_start", "tumble_end", "hop", "hop_start", "hop_end", "time_bucket"), _WINDOW),
    **dict.fromkeys(("row_number", "rank", "dense_rank"), _RANK),
    **dict.fromkeys(("ntile", "lag", "lead", "percent_rank", "cume_dist", "nth_value"), "rank with row_number instead"),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), _ROWS),
    **dict.fromkeys(("inline", "inline_outer", "stack", "json_tuple"), _ROWS),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform"), _CHANGING),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _PLACE),
}

# Canonical names of operators, which SQL cannot call as functions.
_INTERNAL = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"),
        *("bitand", "bitor", "bitxor", "bitnot", "is_null", "is_not_null", "is_true", "is_false", "is_not_true"),
        *("is_not_false", "element", "field", "plus_months", "extract_seconds", "yearofweek", "in", "case", "cast"),
        *("interval_days", "interval_hours", "interval_minutes", "interval_seconds"),
    )
)
_WITH_UNIT = {
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), "timestampadd"),
    **dict.fromkeys(("timestampdiff", "datediff", "date_diff"), "timestampdiff"),
}


class ExpressionBinder:
    """Binds the expressions of one SELECT. `aggregate` and `ranking` bind calls that only some clauses allow."""

    def __init__(self, context: Context, script: Script, scope: Scope) -> None:
        self.context = context
        self.script = script
        self.scope = scope
        self.aggregate: Callable[[exp.Expr], Expr] | None = None
        self.ranking: Callable[[exp.Window], Expr] | None = None
        self.clause = "here"
        self._depth = 0
        self._own: dict[type[exp.Expr], Callable[[Any], Expr]] = {
            exp.Anonymous: self._bind_anonymous,
            exp.Filter: self._aggregated,
            exp.IgnoreNulls: self._aggregated,
            exp.RespectNulls: lambda node: self.bind(node.this),
            exp.Window: self._bind_window,
            exp.Column: self._bind_column,
            exp.Identifier: lambda node: self.name([node], node),
            exp.Dot: self._bind_dot,
            exp.Bracket: self._bind_bracket,
        }

    # -- entry points

    def bind(self, node: exp.Expr) -> Expr:
        """The typed expression of a syntax tree."""
        self._depth += 1
        if self._depth > 300:
            raise self.error("this expression is nested too deeply", node)
        try:
            return self._bind(node)
        finally:
            self._depth -= 1

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that must be BOOLEAN."""
        bound = self.bind(node)
        if bound.type not in (t.BOOLEAN, t.NULL):
            raise self.error(f"{self.clause} takes a condition, and this is {t.sql_name(bound.type)}", node)
        return self.cast(bound, t.BOOLEAN, node)

    def conditions(self, node: exp.Expr) -> tuple[Expr, ...]:
        """The terms of a condition, split at AND."""
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
        if kind in FORMS:
            return FORMS[kind](self, node)
        method = self._own.get(kind)
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
        """A call on bound arguments; `places` are their offsets in the text."""
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
        return self.folded(call)

    def folded(self, call: Call) -> Expr:
        """The value of a constant call as a literal, or the call; an interval keeps the fields of its Spark type."""
        found = fold_call(call)
        if isinstance(found, Literal) and found.type == t.INTERVAL and isinstance(found.value, timedelta):
            return Literal(t.INTERVAL, DayTimeInterval.of(found.value, interval_fields(call)))
        return found

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
        if isinstance(expr, Literal) and expr.value is None:
            return Literal(target, None)
        call = Call(target, name, (expr,), self.zone if signature.zoned else "")
        return self.folded(call) if signature.native else catalyst(self, call, at)

    def _unknown(self, problem: functions.UnknownFunction, name: str, args: Sequence[Expr], node: exp.Expr) -> Expr:
        if self.context.type_of is None:
            names = [n for n in (problem.closest,) if n] or list(self.context.functions)
            raise self.error(f"unknown function {name}{closest(name, names)}", node)
        return catalyst(self, Call(t.NULL, name.lower(), tuple(args)), node, unknown=True)

    def _bind_anonymous(self, node: exp.Anonymous) -> Expr:
        name = node.name.lower()
        if name in WINDOW_FUNCTIONS:
            return window_call(self, name, node)
        if self.context.is_aggregate(name):
            return self._aggregated(node)
        if name in self.context.functions:
            return self._python(name, node)
        if name in _INTERNAL:
            raise self.error(f"unknown function {node.name}; write the operator", node)
        if name in ("date_part", "datepart") and len(node.expressions) == 2:
            return date_part(self, node)
        if name in _WITH_UNIT and len(node.expressions) == 3:
            return self._with_unit(_WITH_UNIT[name], node)
        if name in _REFUSED:
            raise self.error(f"{name} is not supported: {_REFUSED[name]}", node)
        args = []
        for arg in node.expressions:
            if isinstance(arg, exp.Distinct):
                raise self.error(f"DISTINCT is for aggregates, and {name} is not an aggregate", node)
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

    def _with_unit(self, name: str, node: exp.Anonymous) -> Expr:
        """timestampadd(MONTH, 1, ts) and the like: the unit is a keyword."""
        unit, *rest = node.expressions
        if isinstance(unit, exp.Literal) and unit.is_string:
            raise self.error(f"the unit of {node.name} is written without quotes, as in {node.name}(DAY, …)", unit)
        word = unit.name.lower() if isinstance(unit, (exp.Column, exp.Var)) else ""
        word = "day" if word == "dayofyear" and name == "timestampadd" else word  # Spark fails on it in timestampdiff
        args = [Literal(t.STRING, word), *(self.bind(a) for a in rest)]
        return self.apply(name, args, node, [start(a) for a in node.expressions])

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
        args = self.python_arguments(function, node, self.bind)
        return Call(function.returns, "python", args, function.target, function.time_limit)

    def python_arguments(
        self, function: PythonFunction, node: exp.Anonymous, bind: Callable[[exp.Expr], Expr]
    ) -> tuple[Expr, ...]:
        """The arguments of a call of a user's function or aggregate, with the types of its parameters."""
        if len(node.expressions) != len(function.parameters):
            count = len(function.parameters)
            plural = "" if count == 1 else "s"
            given = len(node.expressions)
            raise self.error(f"{function.name} takes {count} argument{plural}, not {given}", node)
        args = []
        for i, (arg, wanted) in enumerate(zip(node.expressions, function.parameters, strict=True)):
            bound = bind(arg)
            try:
                implicit(function.name, i, bound.type, wanted)
            except functions.WrongArguments as problem:
                hint = f"write CAST(… AS {t.sql_name(wanted)})"
                raise self.error(f"{problem}; {hint}", arg) from None
            args.append(self.cast(bound, wanted, arg))
        return tuple(args)

    def _aggregated(self, node: exp.Expr) -> Expr:
        if self.aggregate is None:
            hint = "; write it in HAVING" if self.clause == "WHERE" else ""
            raise self.error(f"an aggregate is not allowed in {self.clause}{hint}", node)
        return self.aggregate(node)

    def _bind_window(self, node: exp.Window) -> Expr:
        if self.ranking is None:
            raise self.error(f"a window function is not allowed in {self.clause}; compute it in a subquery", node)
        return self.ranking(node)

    # -- names

    def _bind_column(self, node: exp.Column) -> Expr:
        parts = [p for p in (node.args.get(k) for k in ("catalog", "db", "table", "this")) if p is not None]
        if isinstance(node.this, exp.Star):
            raise self.error(_NOT_A_VALUE[exp.Star], node)
        if not isinstance(node.this, exp.Identifier):
            raise self.error(f"after {'.'.join(p.name for p in parts[:-1])}. comes the name of a column", node.this)
        return self.name(parts, node)

    def name(self, parts: list[exp.Expr], node: exp.Expr) -> Expr:
        """Resolves a dotted name: a column, optionally qualified by a FROM item, then members of structs."""
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

    def _single(self, found: list[NamedColumn], name: str, node: exp.Expr) -> Expr:
        if len({c.expr for c in found}) > 1 or len(found) > 1:
            where = sorted({q for c in found for q in c.qualifiers})
            hint = f"; write {' or '.join(f'{w}.{name}' for w in where)}" if len(where) > 1 else "; rename one with AS"
            raise self.error(f"column {name} is ambiguous{hint}", node)
        return found[0].expr

    def _members(self, expr: Expr, parts: Sequence[exp.Expr]) -> Expr:
        for part in parts:
            expr = self.member(expr, part)
        return expr

    def member(self, expr: Expr, part: exp.Expr) -> Expr:
        """A member of a struct, or the item of a map with that key."""
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
        return self.member(self.bind(node.this), node.expression)

    def _bind_bracket(self, node: exp.Bracket) -> Expr:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise self.error("write one index in brackets", node)
        base = self.bind(node.this)
        index = node.expressions[0]
        if pa.types.is_struct(base.type) and isinstance(index, exp.Literal) and index.is_string:
            return self.member(base, index)
        return self.apply("element", [base, self.bind(index)], node, [start(node), start(index)])
