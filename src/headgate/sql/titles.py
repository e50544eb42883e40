"""The name that Spark gives a column of a SELECT list without an alias."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.expressions import Literal
from headgate.sql.columns import arrow_type
from headgate.sql.dialect import start
from headgate.sql.errors import SqlError
from headgate.sql.forms import written_number
from headgate.sql.intervals import interval_text, months

if TYPE_CHECKING:
    from headgate.sql.expressions import ExpressionBinder

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_UPPER = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "cot", "csc", "e"),
        *("degrees", "exp", "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "pi", "power", "radians"),
        *("sec", "signum", "sin", "sinh", "sqrt", "tan", "tanh"),
    )
)
"""Functions whose names Spark writes in capitals."""

_DEFAULTS = {
    "bround": (2, ("0",)),
    "from_unixtime": (2, ("yyyy-MM-dd HH:mm:ss",)),
    "locate": (3, ("1",)),
    "lpad": (3, (" ",)),
    "months_between": (3, ("true",)),
    "overlay": (4, ("-1",)),
    "position": (3, ("1",)),
    "regexp_extract": (3, ("1",)),
    "regexp_extract_all": (3, ("1",)),
    "regexp_replace": (4, ("1",)),
    "replace": (3, ("",)),
    "round": (2, ("0",)),
    "rpad": (3, (" ",)),
    "split": (3, ("-1",)),
    "substr": (3, ("2147483647",)),
    "substring": (3, ("2147483647",)),
}
"""How many arguments Spark names, and the values of those that may be left out."""

_FIRST_ONLY = ("first", "last", "any_value", "first_value", "last_value")
_WITH_UNIT = {
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), "timestampadd"),
    **dict.fromkeys(("timestampdiff", "datediff", "date_diff"), "timestampdiff"),
}
_CASTS = frozenset(
    (
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
        *("string", "binary", "date", "timestamp"),
    )
)
_TYPED = re.compile(r"(DATE|TIMESTAMP(_NTZ|_LTZ)?|TIME)\s*['\"]", re.IGNORECASE)


def title(node: exp.Expr, binder: ExpressionBinder) -> str:
    """The name of an expression, for the forms that people leave unnamed: b for a.b, (x + 1), count(1), window."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, (exp.Column, exp.Dot)):
        return str(node.name or node.expression.name)
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in ("window", "session_window", "rows_window"):
            return name
        if name in _CASTS and len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Column, exp.Dot)):
            return title(node.expressions[0], binder)
    if isinstance(node, (exp.Cast, exp.TryCast)) and isinstance(node.this, (exp.Column, exp.Dot)):
        return title(node.this, binder)
    return _Titles(binder).text(node)


class _Titles:
    """Writes an expression as Spark names it."""

    def __init__(self, binder: ExpressionBinder) -> None:
        self._binder = binder

    def text(self, node: exp.Expr) -> str:
        literal = self._literal(node)
        if literal is not None:
            return literal
        kind = type(node)
        if kind in (exp.Add, exp.Sub):
            return self._moved(node)
        if kind in _OPERATORS:
            return f"({self.text(node.this)} {_OPERATORS[kind]} {self.text(node.expression)})"
        form = _FORMS.get(kind)
        return form(self, node) if form is not None else str(node.sql(dialect="spark", comments=False))

    def list(self, nodes: Any) -> str:
        return ", ".join(self.text(node) for node in nodes)

    def _literal(self, node: exp.Expr) -> str | None:
        """A constant by its value; None for all else."""
        inner = node.this if isinstance(node, exp.Neg) else node
        script = self._binder.script
        number = written_number(script, inner) is not None
        typed = isinstance(node, exp.Cast) and _TYPED.match(script.text, start(node)) is not None
        if isinstance(node, exp.Interval) and months(node, script) is not None:
            return _months(months(node, script) or 0)
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        if number or typed or isinstance(node, (exp.Interval, exp.HexString, exp.Boolean, exp.Null)):
            return self._value(node)
        return None

    def _value(self, node: exp.Expr) -> str | None:
        try:
            bound = self._binder.bind(node)
            if not isinstance(bound, Literal):
                return None
            if bound.type == t.INTERVAL:
                return interval_text(bound.value)
            if bound.type == t.TIME:
                return _time(bound.value)
            if bound.type == t.BINARY:
                return f"X'{bound.value.hex().upper()}'"
            if bound.value is None or bound.type == t.BOOLEAN:
                return "NULL" if bound.value is None else str(bound.value).lower()
            shown = self._binder.cast(bound, t.STRING, node)
        except SqlError:
            return None
        if not isinstance(shown, Literal):
            return None
        typed = bound.type == t.DATE or t.is_time(bound.type)
        return f"{t.sql_name(bound.type)} '{shown.value}'" if typed else str(shown.value)

    def _moved(self, node: exp.Expr) -> str:
        """Plus and minus: Spark writes a date plus days as a function, and a time plus an interval without brackets."""
        sign = _OPERATORS[type(node)]
        first, second = self._type(node.this), self._type(node.expression)
        left, right = self.text(node.this), self.text(node.expression)
        if sign == "+" and second == t.DATE:
            first, second, left, right = second, first, right, left
        if first == t.DATE and t.is_integral(second):
            return f"{'date_add' if sign == '+' else 'date_sub'}({left}, {right})"
        if (first == t.DATE or t.is_time(first)) and second == t.INTERVAL:
            return f"{left} {sign} {right}"
        return f"({left} {sign} {right})"

    def _type(self, node: exp.Expr) -> pa.DataType:
        """The type of an operand; a rank is bound once only, and is a number."""
        if isinstance(node, exp.Interval):
            return t.INTERVAL
        return t.INT if node.find(exp.Window) else self._binder.bind(node).type

    def column(self, node: exp.Column) -> str:
        names = [part.name for part in node.parts]
        scope = self._binder.scope
        return ".".join(names[1:] if len(names) > 1 and scope.has_item(names[0]) else names)

    def anonymous(self, node: exp.Anonymous) -> str:
        name, args = node.name.lower(), node.expressions
        if name in _FIRST_ONLY:
            args = args[:1]  # Spark leaves out whether nulls are ignored
        if name == "positive" and len(args) == 1:
            return f"(+ {self.text(args[0])})"
        if name in ("isnull", "isnotnull") and len(args) == 1:
            return f"({self.text(args[0])} IS {'NOT ' if name == 'isnotnull' else ''}NULL)"
        if name in _CASTS and len(args) == 1:
            return f"CAST({self.text(args[0])} AS {name.upper()})"
        if name in ("rlike", "regexp", "regexp_like"):
            return f"{name.upper()}({self.list(args)})"
        if name in _WITH_UNIT and len(args) == 3:
            return f"{_WITH_UNIT[name]}({args[0].name}, {self.list(args[1:])})"
        if name == "log" and len(args) == 1:
            return f"LOG(E(), {self.text(args[0])})"
        shown = [self.text(arg) for arg in args]
        count, values = _DEFAULTS.get(name, (0, ()))
        if shown and len(shown) == count - 1:
            shown += values
        upper = name in _UPPER and (name not in ("ceil", "floor") or len(shown) == 1)
        return f"{name.upper() if upper else name}({', '.join(shown)})"

    def cast(self, node: exp.Expr) -> str:
        name = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        type_ = t.sql_name(arrow_type(node.args["to"], self._binder.script, start(node)))
        return f"{name}({self.text(node.this)} AS {type_})"

    def case(self, node: exp.Case) -> str:
        operand = node.args.get("this")
        text = "CASE"
        for branch in node.args["ifs"]:
            when = self.text(branch.this)
            when = when if operand is None else f"({self.text(operand)} = {when})"
            text += f" WHEN {when} THEN {self.text(branch.args['true'])}"
        default = node.args.get("default")
        return text + (f" ELSE {self.text(default)}" if default is not None else "") + " END"

    def trim(self, node: exp.Trim) -> str:
        position = str(node.args.get("position") or "").upper()
        characters = node.args.get("expression")
        if characters is not None:
            return f"TRIM({position or 'BOTH'} {self.text(characters)} FROM {self.text(node.this)})"
        return f"{ {'LEADING': 'ltrim', 'TRAILING': 'rtrim'}.get(position, 'trim') }({self.text(node.this)})"

    def like(self, node: exp.Expr) -> str:
        name = "ilike({}, {})" if isinstance(node, exp.ILike) else "{} LIKE {}"
        text = name.format(self.text(node.this), self.text(node.expression))
        return f"(NOT {text})" if node.args.get("negate") else text

    def call(self, name: str, *args: exp.Expr | None) -> str:
        given = [self.text(arg) for arg in args if arg is not None]
        count, values = _DEFAULTS.get(name, (0, ()))
        return f"{name}({', '.join(given + list(values if len(given) == count - 1 else ()))})"

    def written(self, node: exp.Expr, name: str) -> str:
        """The name of a function as the text has it: sqlglot knows SUBSTR as SUBSTRING."""
        found = re.match(r"\w+", self._binder.script.text[start(node) :])
        return found[0].lower() if found and found[0].lower() in _DEFAULTS else name

    def bracket(self, node: exp.Bracket) -> str:
        index = node.expressions[0]
        base = self._binder.bind(node.this)
        member = str(base.type).startswith("struct")
        return f"{self.text(node.this)}.{index.name}" if member else f"{self.text(node.this)}[{self.text(index)}]"


def _time(value: time) -> str:
    text = value.isoformat()
    return f"TIME '{text.rstrip('0') if '.' in text else text}'"


def _months(size: int) -> str:
    return f"INTERVAL '{size}' MONTH" if size % 12 else f"INTERVAL '{size // 12}' YEAR"


_FORMS: dict[type[exp.Expr], Callable[[_Titles, Any], str]] = {
    exp.Column: _Titles.column,
    exp.Paren: lambda self, node: self.text(node.this),
    exp.Star: lambda self, node: "1",
    exp.RawString: lambda self, node: str(node.this),
    exp.Concat: lambda self, node: "".join(part.name for part in node.expressions),
    exp.Distinct: lambda self, node: "DISTINCT " + self.list(node.expressions),
    exp.Anonymous: _Titles.anonymous,
    exp.Cast: _Titles.cast,
    exp.TryCast: _Titles.cast,
    exp.Case: _Titles.case,
    exp.If: lambda self, node: "(IF({}, {}, {}))".format(
        *(self.text(n) for n in (node.this, node.args["true"], node.args["false"]))
    ),
    exp.Neg: lambda self, node: f"(- {self.text(node.this)})",
    exp.Not: lambda self, node: (
        f"({self.text(node.this.this)} IS NOT {self.text(node.this.expression)})"
        if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null)
        else f"(NOT {self.text(node.this)})"
    ),
    exp.NEQ: lambda self, node: f"(NOT ({self.text(node.this)} = {self.text(node.expression)}))",
    exp.NullSafeNEQ: lambda self, node: f"(NOT ({self.text(node.this)} <=> {self.text(node.expression)}))",
    exp.Is: lambda self, node: (
        f"({self.text(node.this)} {'IS' if isinstance(node.expression, exp.Null) else '<=>'} "
        f"{self.text(node.expression)})"
    ),
    exp.BitwiseNot: lambda self, node: f"~{self.text(node.this)}",
    exp.DPipe: lambda self, node: f"concat({self.text(node.this)}, {self.text(node.expression)})",
    exp.In: lambda self, node: f"({self.text(node.this)} IN ({self.list(node.expressions)}))",
    exp.Between: lambda self, node: self.call("between", node.this, node.args["low"], node.args["high"]),
    exp.Like: _Titles.like,
    exp.ILike: _Titles.like,
    exp.Escape: lambda self, node: f"{self.text(node.this)} ESCAPE '{node.expression.name}'",
    exp.RegexpLike: lambda self, node: f"RLIKE({self.text(node.this)}, {self.text(node.expression)})",
    exp.Extract: lambda self, node: f"extract({node.name} FROM {self.text(node.expression)})",
    exp.Trim: _Titles.trim,
    exp.Substring: lambda self, node: self.call(
        self.written(node, "substring"), node.this, node.args.get("start"), node.args.get("length")
    ),
    exp.StrPosition: lambda self, node: self.call("locate", node.args["substr"], node.this, node.args.get("position")),
    exp.Overlay: lambda self, node: self.call(
        "overlay", node.this, node.expression, node.args["from_"], node.args.get("for_")
    ),
    exp.Bracket: _Titles.bracket,
    exp.Filter: lambda self, node: f"{self.text(node.this)} FILTER (WHERE {self.text(node.expression.this)})",
    exp.IgnoreNulls: lambda self, node: self.text(node.this),
    exp.RespectNulls: lambda self, node: self.text(node.this),
    exp.Alias: lambda self, node: f"{self.text(node.this)} AS {node.alias}",
    exp.CurrentDate: lambda self, node: "current_date()",
    exp.CurrentTimestamp: lambda self, node: "current_timestamp()",
}
