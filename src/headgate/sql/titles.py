"""What Spark calls a column of a SELECT list that has no alias."""

from __future__ import annotations

from sqlglot import exp

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "!=",
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
}


def title(node: exp.Expr) -> str:
    """The name that Spark gives an expression, for the forms that people leave unnamed.

    >>> from headgate.sql.dialect import parse_select
    >>> from headgate.sql.errors import Script
    >>> select = parse_select(Script("SELECT a.b, count(*), x + 1, window(ts, '1 second')", ""))
    >>> [title(e) for e in select.expressions]
    ['b', 'count(1)', '(x + 1)', 'window']
    """
    if isinstance(node, (exp.Column, exp.Dot)):
        return str(node.name or node.expression.name)
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("window", "session_window", "rows_window"):
        return str(node.name.lower())
    if isinstance(node, exp.Cast) and isinstance(node.this, (exp.Column, exp.Dot)):
        return title(node.this)
    return _text(node)


def _text(node: exp.Expr) -> str:
    kind = type(node)
    if kind in _OPERATORS:
        return f"({_text(node.this)} {_OPERATORS[kind]} {_text(node.expression)})"
    if isinstance(node, exp.Column):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Paren):
        return _text(node.this)
    if isinstance(node, exp.Star):
        return "1"
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Distinct):
        return "DISTINCT " + ", ".join(_text(e) for e in node.expressions)
    if isinstance(node, exp.Anonymous):
        args = node.expressions
        if node.name.lower() in ("first", "last", "any_value", "first_value", "last_value"):
            args = args[:1]  # Spark leaves out whether nulls are ignored
        return f"{node.name.lower()}({', '.join(_text(e) for e in args)})"
    if isinstance(node, exp.Cast):
        return f"CAST({_text(node.this)} AS {node.args['to'].sql(dialect='spark')})"
    if isinstance(node, exp.Neg):
        return f"(- {_text(node.this)})"
    if isinstance(node, exp.Filter):
        return f"{_text(node.this)} FILTER (WHERE {_text(node.expression.this)})"
    if isinstance(node, exp.Is):
        return f"({_text(node.this)} IS {_text(node.expression)})"
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is):
        return f"({_text(node.this.this)} IS NOT {_text(node.this.expression)})"
    if isinstance(node, exp.IgnoreNulls):
        return _text(node.this)
    if isinstance(node, exp.Not):
        return f"(NOT {_text(node.this)})"
    return str(node.sql(dialect="spark", comments=False))
