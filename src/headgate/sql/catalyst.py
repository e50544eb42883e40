"""Turns a call that has no kernel into one that Catalyst computes at the source, or says why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from headgate.expressions.notation import INFIX
from headgate.expressions.registry import FUNCTIONS
from headgate.graph.expressions import Call, Column, Expr
from headgate.graph.operators import Operator, Source
from headgate.graph.types import Field, Schema
from headgate.sql.errors import SqlError, closest
from headgate.sql.foreign import Catalyst, NotSpark, spark_text

if TYPE_CHECKING:
    from headgate.sql.expressions import ExpressionBinder


class _Lost(Exception):
    """The columns cannot be traced to one stream; the message says why."""


def catalyst(
    binder: ExpressionBinder,
    call: Call,
    at: exp.Expr | int,
    unknown: bool = False,
    tree: exp.Expr | None = None,
) -> Expr:
    """The call as Catalyst computes it. `unknown`: only Spark knows its type; `tree`: its text, if not the call's."""
    base = binder.scope.relation.base
    what = "this cast" if call.name in ("cast", "try_cast") else INFIX.get(call.name, f"{call.name}(…)")
    reads = _reads(binder, tree) if tree is not None else _columns(call)
    try:
        source, positions = _trace(base, reads)
    except _Lost as lost:
        hint = "" if ";" in str(lost) else "; compute it in a subquery there"
        message = f"{what} is computed by Spark where the rows enter, but {lost}{hint}"
        raise binder.error(message, at) from None
    names = {column.index: source.schema[position].name for column, position in zip(reads, positions, strict=True)}
    try:
        text = _tree_text(binder, tree, names) if tree is not None else spark_text(call, lambda c: names[c.index])
    except NotSpark as part:
        message = f"{what} is computed by Spark where the rows enter, and {part} cannot be computed there"
        raise binder.error(message, at) from None
    # Spark's analyzer is asked even where the type is known: it checks the arguments, which the rules of most functions
    # without a kernel leave to it. What it refuses must not reach a running lane.
    asked = unknown or binder.context.type_of is not None
    type_ = _ask(binder, call.name, text, source.schema, at) if asked else call.type
    return Catalyst(type_, text, tuple(reads))


def _columns(expr: Expr) -> list[Column]:
    """The columns that an expression reads, each once, by position."""
    found = {e.index: e for e in expr.walk() if isinstance(e, Column)}
    return [found[i] for i in sorted(found)]


def _trace(node: Operator, columns: list[Column]) -> tuple[Source, list[int]]:
    """The stream whose columns these are, and their positions there."""
    positions = [c.index for c in columns]
    while True:
        if any(i >= len(node.schema) for i in positions):
            raise _Lost("it depends on an aggregate")
        if isinstance(node, Source):
            return node, positions
        origins = [node.origins(i) for i in positions]
        inputs = {origin[0][0] for origin in origins if origin} or {0}
        if len(inputs) > 1:
            raise _Lost("it depends on both sides of a join; compute in subqueries what depends on one side alone")
        number = inputs.pop()
        obstacle = node.obstacle(number if all(origins) else None)
        if obstacle is not None:
            raise _Lost(obstacle)
        node, positions = node.inputs[number], [origin[0][1] for origin in origins]


def _reads(binder: ExpressionBinder, tree: exp.Expr) -> list[Column]:
    """The columns that a call with lambdas reads; the lambdas' own variables are not columns."""
    found: dict[int, Column] = {}
    for column in _outer_columns(tree):
        for one in _columns(binder.bind(column)):
            found[one.index] = one
    return [found[i] for i in sorted(found)]


def _outer_columns(tree: exp.Expr) -> list[exp.Expr]:
    """The column references of a tree that are not variables of a lambda, outermost names only."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr, variables: frozenset[str]) -> None:
        if isinstance(node, exp.Lambda):
            variables = variables | {v.name.lower() for v in node.expressions}
            visit(node.this, variables)
            return
        if isinstance(node, (exp.Column, exp.Dot)):
            first = node.sql(dialect="spark").split(".")[0].strip("`").lower()
            if first not in variables:
                found.append(node)
            return
        for child in node.iter_expressions():
            visit(child, variables)

    visit(tree, frozenset())
    return found


def _tree_text(binder: ExpressionBinder, tree: exp.Expr, names: dict[int, str]) -> str:
    """The text of a call with lambdas, its columns under the stream's names."""
    copied = tree.copy()
    for column in _outer_columns(copied):
        column.replace(exp.var(spark_text(binder.bind(column), lambda c: names[c.index])))
    return str(copied.sql(dialect="spark", comments=False))


def _ask(binder: ExpressionBinder, name: str, text: str, schema: Schema, at: exp.Expr | int) -> pa.DataType:
    """The type that Spark gives an expression."""
    type_of = binder.context.type_of
    if type_of is None:
        raise binder.error(f"only Spark knows the type of {name}(…), and Spark is not available here", at)
    columns = Schema(tuple(Field(f.name, f.type, f.nullable) for f in schema.fields))
    try:
        return type_of(text, columns)
    except SqlError:
        raise
    except ValueError as problem:
        if "UNRESOLVED_ROUTINE" in str(problem):
            raise binder.error(f"unknown function {name}{closest(name, FUNCTIONS)}", at) from None
        raise binder.error(f"Spark refuses {name}(…): {problem}", at) from None
