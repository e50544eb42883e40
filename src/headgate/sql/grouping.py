"""Binds aggregation: GROUP BY keys and windows, aggregate calls, and the SELECT list over the aggregate's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from headgate.expressions import functions
from headgate.expressions.normalize import conjunction, normalize
from headgate.graph import types as t
from headgate.graph.event_times import instant, time_of
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import Aggregate, AggregateCall, Select, Source, Window
from headgate.graph.types import Field, Schema
from headgate.sql.context import Context, PythonFunction
from headgate.sql.errors import SqlError
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.foreign import Catalyst
from headgate.sql.relation import Relation
from headgate.sql.times import times
from headgate.sql.windows import ROWS, as_window, check_scalar, find_call, is_grouping

_INSTEAD = "one of its elements, or by CAST(… AS STRING)"
# Until the aggregate is built, its calls are columns numbered from here, above the positions of all input columns.
_PENDING = 1_000_000


class _NotGrouped(Exception):
    """A column that is neither grouped by nor inside an aggregate."""


@dataclass(frozen=True)
class Grouped:
    """An aggregate, and the rewriting of expressions over its input as expressions over its output."""

    relation: Relation
    _keys: dict[Expr, int]
    _first_call: int
    _calls: tuple[AggregateCall, ...]

    def over(self, expr: Expr) -> Expr:
        """An expression over the input, with pending aggregates, as one over the aggregate's output."""

        def change(e: Expr) -> Expr | None:
            place = self._keys.get(normalize(e))
            if place is not None:
                return Column(e.type, place)
            if isinstance(e, Column):
                if e.index < 0:  # a rank over the aggregate
                    return e
                if e.index >= _PENDING:
                    return Column(e.type, self._first_call + e.index - _PENDING)
                raise _NotGrouped
            if isinstance(e, Catalyst):
                raise _NotGrouped
            return None

        return expr.rewrite(change)


class GroupBinder:
    """Binds one grouped SELECT over its input."""

    def __init__(self, binder: ExpressionBinder, select: exp.Select) -> None:
        self._binder = binder
        self._select = select
        self._calls: dict[AggregateCall, int] = {}
        self._keys: list[Expr] = []
        self._key_nodes: list[exp.Expr] = []
        self._constant = False

    @staticmethod
    def wanted(select: exp.Select, context: Context) -> bool:
        """Whether a SELECT aggregates: it has GROUP BY or HAVING, or an aggregate in its list."""
        if select.args.get("group") is not None or select.args.get("having") is not None:
            return True
        return any(_has_aggregate(item, context) for item in select.expressions)

    def keys(self) -> None:
        """Binds GROUP BY."""
        group = self._select.args.get("group")
        if group is None:
            return
        binder = self._binder
        for clause, word in (("grouping_sets", "GROUPING SETS"), ("cube", "CUBE"), ("rollup", "ROLLUP")):
            if group.args.get(clause):
                raise binder.error(f"{word} is not supported; write one query for each grouping", group)
        binder.clause = "GROUP BY"
        nodes = group.expressions
        if group.args.get("all"):
            nodes = [_plain(item) for item in self._select.expressions if not _has_aggregate(item, binder.context)]
        for node in nodes:
            self._key(node)

    def _key(self, node: exp.Expr) -> None:
        binder = self._binder
        if isinstance(node, (exp.Cube, exp.Rollup, exp.GroupingSets)):
            raise binder.error(
                f"{type(node).__name__.upper()} is not supported; write one query for each grouping", node
            )
        target = self._meant(node)
        bound = binder.bind(target)
        if isinstance(bound, Literal):
            self._constant = True
            return
        if not is_grouping(bound) and any(is_grouping(e) for e in bound.walk()):
            raise binder.error("group by the window itself, and take its start or end in the SELECT list", node)
        if not t.is_key(bound.type):
            message = f"GROUP BY cannot compare values of {t.sql_name(bound.type)}; group by {_INSTEAD}"
            raise binder.error(message, target)
        if is_grouping(bound):
            assert isinstance(bound, Call)
            if any(is_grouping(k) for k in self._keys):
                raise binder.error("GROUP BY takes one window", node)
            binder.scope.windows[bound.name] = bound
        self._keys.append(bound)
        self._key_nodes.append(target)

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """GROUP BY 1 and GROUP BY alias refer to an item of the SELECT list."""
        items = self._select.expressions
        place = position(node)
        if place is not None:
            if not 1 <= place <= len(items):
                message = f"GROUP BY {place}: the SELECT list has {len(items)} column{'' if len(items) == 1 else 's'}"
                raise self._binder.error(message, node)
            return _plain(items[place - 1])
        if isinstance(node, exp.Column) and not node.table and not self._binder.scope.columns(None, node.name):
            for item in items:
                if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                    return item.this  # type: ignore[no-any-return]
        return node

    def aggregate(self, node: exp.Expr) -> Expr:
        """An aggregate call as a pending column; equal calls are one."""
        binder = self._binder
        where: Expr | None = None
        option = ""
        call = node
        while not isinstance(call, exp.Anonymous):
            if isinstance(call, exp.Filter):
                where = self._inside(self._filter, call.expression.this)
            elif isinstance(call, exp.IgnoreNulls):
                option = "ignore nulls"
            elif not isinstance(call, exp.RespectNulls):
                raise binder.error(f"{call.sql(dialect='spark')[:60]} is not supported", call)
            call = call.this
        name = call.name.lower()
        if not binder.context.is_aggregate(name):
            raise binder.error(f"{call.name} is not an aggregate, so FILTER and IGNORE NULLS mean nothing", call)
        user = binder.context.functions.get(name)
        if user is not None:
            made = self._user_defined(user, call, where, option)
        else:
            made = self._resolved(name, call, where, option)
        place = self._calls.setdefault(made, len(self._calls))
        return Column(made.type, _PENDING + place)

    def _resolved(self, name: str, call: exp.Anonymous, where: Expr | None, option: str) -> AggregateCall:
        binder = self._binder
        nodes = list(call.expressions)
        distinct = False
        if nodes and isinstance(nodes[0], exp.Distinct):
            distinct = True
            nodes = list(nodes[0].expressions)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
            if name != "count" or distinct:
                raise binder.error(
                    f"{name}({'DISTINCT ' if distinct else ''}*) is not supported; name a column", nodes[0]
                )
            nodes = []
        elif not nodes and name == "count":
            raise binder.error("count needs * or a column", call)
        nodes, flag = self._flag(name, nodes)
        option = option or flag
        args = [self._inside(binder.bind, n) for n in nodes]
        try:
            signature = functions.resolve_aggregate(name, [a.type for a in args], distinct)
        except functions.WrongArguments as problem:
            at = nodes[problem.position] if problem.position is not None and problem.position < len(nodes) else call
            raise binder.error(str(problem), at) from None
        except functions.UnknownFunction as problem:
            raise binder.error(str(problem), call) from None
        if option == "ignore nulls" and signature.name not in ("first", "last", "any_value"):
            raise binder.error(f"IGNORE NULLS is for first, last and any_value; {name} ignores nulls anyway", call)
        cast = tuple(binder.cast(a, wanted, n) for a, wanted, n in zip(args, signature.args, nodes, strict=False))
        # count(1) counts all rows, as count(*) does.
        if signature.name == "count" and len(cast) == 1 and isinstance(cast[0], Literal) and cast[0].value is not None:
            cast = cast if distinct else ()
        return AggregateCall(signature.name, cast, signature.result, distinct, where, option or signature.option)

    def _user_defined(
        self, function: PythonFunction, call: exp.Anonymous, where: Expr | None, option: str
    ) -> AggregateCall:
        binder = self._binder
        if option:
            raise binder.error(f"IGNORE NULLS is for first, last and any_value; {function.name} sees all values", call)
        if any(isinstance(node, exp.Distinct) for node in call.expressions):
            raise binder.error(f"{function.name} does not take DISTINCT; it is for Spark's aggregates", call)
        args = binder.python_arguments(function, call, lambda node: self._inside(binder.bind, node))
        return AggregateCall(
            "python", args, function.returns, False, where, function.target, function.state, function.time_limit
        )

    def _filter(self, node: exp.Expr) -> Expr:
        self._binder.clause = "FILTER"
        return _and(self._binder.conditions(node))

    def _flag(self, name: str, nodes: list[exp.Expr]) -> tuple[list[exp.Expr], str]:
        """Takes the constant that some aggregates have as a second argument: it becomes their option."""
        if len(nodes) != 2:
            return nodes, ""
        if name in ("first", "last", "any_value", "first_value", "last_value"):
            if not isinstance(nodes[1], exp.Boolean):
                raise self._binder.error(f"{name} takes true or false as its second argument", nodes[1])
            return nodes[:1], "ignore nulls" if nodes[1].this else ""
        if name == "approx_count_distinct":
            error = self._binder.bind(nodes[1])
            if not (isinstance(error, Literal) and t.is_numeric(error.type) and 0 < (error.value or 0) < 0.39):
                message = "approx_count_distinct takes an error between 0 and 0.39 as its second argument"
                raise self._binder.error(message, nodes[1])
            return nodes[:1], str(float(error.value))
        return nodes, ""

    def _inside(self, bind: object, node: exp.Expr) -> Expr:
        """Binds an expression inside an aggregate, where no other aggregate is allowed."""
        binder = self._binder
        outer, clause = binder.aggregate, binder.clause

        def nested(inner: exp.Expr) -> Expr:
            raise binder.error("an aggregate cannot stand inside another; compute the inner one in a subquery", inner)

        binder.aggregate = nested
        try:
            bound: Expr = bind(node)  # type: ignore[operator]
        finally:
            binder.aggregate, binder.clause = outer, clause
        if any(isinstance(e, Column) and not 0 <= e.index < _PENDING for e in bound.walk()):
            raise binder.error("an aggregate cannot stand inside another; compute the inner one in a subquery", node)
        check_scalar(binder, bound, node)
        return bound

    def check_windows(self, expr: Expr, node: exp.Expr) -> None:
        """Refuses a window that GROUP BY does not name."""
        keys = {normalize(key) for key in self._keys}
        for e in expr.walk():
            if isinstance(e, Call) and is_grouping(e) and normalize(e) not in keys:
                message = f"this {e.name} is not in GROUP BY; repeat the one there word for word, or write window"
                raise self._binder.error(message, find_call(node, e.name))

    # -- the aggregate itself

    def build(self, having: Expr | None, having_node: exp.Expr | None) -> Grouped:
        """The aggregate of all calls bound so far, with HAVING applied."""
        binder = self._binder
        base = binder.scope.relation.base
        if binder.scope.relation.identity is not None:
            message = "this aggregates rows that are replaced later; group by a window in the subquery"
            raise binder.error(message, self._select)
        window, keys, places = self._cut()
        calls = tuple(self._calls)
        fields = [Field("window", self._window_type(window))] if window is not None else []
        fields += [Field(f"key{i}", k.type) for i, k in enumerate(keys)]
        fields += [Field(f"{c.label}{i}", c.type) for i, c in enumerate(calls)]
        if window is None:
            fields.append(Field("deleted", t.BOOLEAN, False))
        first_call = (1 if window is not None else 0) + len(keys)
        aggregate = Aggregate(Schema(tuple(fields)), base, keys, calls, window)
        if window is not None and window.on is not None and aggregate.by_moment and any(map(is_grouping, self._keys)):
            # window(ts, '1 microsecond') beside ts: a row without a time is in no window.
            base = Select(base.schema, base, (Call(t.BOOLEAN, "is_not_null", (window.on,)),))
            aggregate = replace(aggregate, input=base)
        grouped = Grouped(Relation(aggregate, ()), places, first_call, calls)
        if having is None:
            return self._with_identity(grouped, aggregate)
        condition = self.checked(grouped, having, having_node or self._select)
        if window is None:
            aggregate = Aggregate(aggregate.schema, base, keys, calls, None, condition)
            return self._with_identity(Grouped(Relation(aggregate, ()), places, first_call, calls), aggregate)
        terms = conjunction((condition,))
        return Grouped(Relation(Select(aggregate.schema, aggregate, terms), ()), places, first_call, calls)

    def _with_identity(self, grouped: Grouped, aggregate: Aggregate) -> Grouped:
        if aggregate.window is not None:
            return grouped
        count = len(aggregate.keys)
        identity = [Column(k.type, i) for i, k in enumerate(aggregate.keys)]
        identity.append(Column(t.BOOLEAN, count + len(aggregate.calls)))
        return Grouped(Relation(aggregate, (), tuple(identity)), grouped._keys, grouped._first_call, grouped._calls)

    def checked(self, grouped: Grouped, expr: Expr, node: exp.Expr) -> Expr:
        """An expression over the aggregate's output, or the error at the column that is not grouped."""
        try:
            return grouped.over(expr)
        except _NotGrouped:
            raise self._not_grouped(grouped, node) from None

    def _not_grouped(self, grouped: Grouped, node: exp.Expr) -> SqlError:
        binder = self._binder
        for column in _free_columns(node, binder.context):
            try:
                grouped.over(binder.bind(column))
            except _NotGrouped:
                name = column.sql(dialect="spark").replace("`", "")
                message = (
                    f"column {name} is neither in GROUP BY nor in an aggregate; group by it or write first({name})"
                )
                return binder.error(message, column)
        message = "this is computed by Spark where the rows enter; add it to GROUP BY, or compute it in a subquery"
        return binder.error(message, node)

    def _cut(self) -> tuple[Window | None, tuple[Expr, ...], dict[Expr, int]]:
        """The window, the other keys, and where each key stands in the output."""
        base = self._binder.scope.relation.base
        known = times(base)
        for key, node in zip(self._keys, self._key_nodes, strict=True):
            if is_grouping(key):
                assert isinstance(key, Call)
                self._check_time(key, node)
                rest = _unique(k for k in self._keys if k != key)
                places = {normalize(k): i + 1 for i, k in enumerate(rest)}
                return as_window(key), rest, {**places, normalize(key): 0}
        keys = _unique(self._keys)
        if not keys and self._constant:
            # One group, as without GROUP BY, but none if there are no rows.
            return None, (Literal(t.INT, 1),), {}
        for key in keys:
            moment = instant(key, known)
            if moment is not None:
                # A window or an event time as a key: its group is complete when the watermark passes it. A window
                # of one microsecond on it closes just then; the key itself stays a key.
                places = {normalize(k): i + 1 for i, k in enumerate(keys)}
                return Window("time", 1, 1, 0, moment), keys, places
        return None, keys, {normalize(k): i for i, k in enumerate(keys)}

    def _check_time(self, key: Call, node: exp.Expr) -> None:
        if key.name == "rows_window":
            return
        relation = self._binder.scope.relation
        known = times(relation.base)
        if time_of(key.args[0], known) is None:
            raise self._binder.error(no_event_time(key.name, relation), node)

    @staticmethod
    def _window_type(window: Window) -> pa.DataType:
        if window.on is None:
            return ROWS
        return t.WINDOW if window.on.type == t.TIMESTAMP else t.WINDOW_NTZ


def no_event_time(what: str, relation: Relation) -> str:
    """Why a window has no event time here, and what to write."""
    known = times(relation.base)
    named = [c.name for c in relation.columns if time_of(c.expr, known) is not None]
    if named:
        return f"{what} needs the event time; write {what}({named[0]}, …)"
    if any(isinstance(node, Source) and node.time is not None for node in relation.base.walk()):
        return f"{what} needs an event time, and none is among the columns here; select it in the subquery"
    message = "no stream here has a watermark, so a window would never be complete"
    return f"{message}; declare WATERMARK FOR column AS column - INTERVAL 10 SECONDS in its CREATE STREAM"


def _and(terms: Sequence[Expr]) -> Expr:
    kept = conjunction(terms)
    return kept[0] if len(kept) == 1 else Call(t.BOOLEAN, "and", kept)


def position(node: exp.Expr) -> int | None:
    """The position that a key of GROUP BY refers to: an INT literal, also in parentheses; None for any other key."""
    node = node.unnest()
    sign = -1 if isinstance(node, exp.Neg) else 1
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdigit():
        return None
    place = sign * int(number.this)
    return place if -(2**31) <= place < 2**31 else None


def _plain(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _unique(keys: object) -> tuple[Expr, ...]:
    return tuple({normalize(k): k for k in keys}.values())  # type: ignore[attr-defined]


def _has_aggregate(node: exp.Expr, context: Context) -> bool:
    """Whether a tree holds an aggregate that is not a window function's own (sum(x) OVER …)."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, (exp.Filter, exp.IgnoreNulls)):
        return True
    if isinstance(node, exp.Window):
        inside = [*(node.args.get("partition_by") or ()), *([node.args["order"]] if node.args.get("order") else [])]
        return any(_has_aggregate(n, context) for n in inside)
    if isinstance(node, exp.Anonymous) and context.is_aggregate(node.name.lower()):
        return True
    return any(_has_aggregate(child, context) for child in node.iter_expressions())


def _free_columns(node: exp.Expr, context: Context) -> list[exp.Expr]:
    """The columns of a tree outside its aggregates."""
    if isinstance(node, (exp.Filter, exp.IgnoreNulls)):
        return []
    if isinstance(node, exp.Anonymous) and context.is_aggregate(node.name.lower()):
        return []
    if isinstance(node, exp.Column) or (isinstance(node, exp.Dot) and node.find(exp.Anonymous) is None):
        return [node]
    return [c for child in node.iter_expressions() for c in _free_columns(child, context)]
