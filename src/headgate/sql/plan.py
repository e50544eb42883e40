"""Builds the plan of a query: projections merged, only needed columns carried, Catalyst's expressions at the source.

One function does it, from the top down: `narrowed` takes a node and the expressions wanted over its output, and
returns the smallest node and the same expressions over that. Sources, selections, projections and unions have rules
of their own; all other operators are handled through their interface (`headgate.graph.operators.operator`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.expressions.normalize import conjunction, normalize
from headgate.graph.expressions import Column, Expr, Foreign
from headgate.graph.operators import Operator, Project, Select, Source, Split, Union, source_of
from headgate.graph.operators.operator import ALL, TABLE, ColumnScope, all_columns
from headgate.graph.types import Field, Schema
from headgate.sql.errors import Script
from headgate.sql.foreign import Catalyst
from headgate.sql.pushdown import Pushdown, substituted
from headgate.sql.relation import OtherQuery, Relation

Exprs = tuple[Expr, ...]


def plan(relation: Relation, script: Script) -> Operator:
    """The operators of a bound query: its visible columns, then what identifies a row if rows are replaced."""
    wanted = tuple(c.expr for c in relation.columns) + (relation.identity or ())
    names = [c.name for c in relation.columns]
    names += [f"identity{i}" for i in range(len(wanted) - len(names) - 1)]
    names += ["deleted"] if relation.identity is not None else []
    return carried(Pushdown(script).push(relation.base), wanted, names)


def split_plan(base: Operator, conditions: Exprs, schema: Schema, script: Script, at: int) -> Operator:
    """A split over all columns of its input, which every branch shares."""
    below, exprs = narrowed(Pushdown(script).push(base), (*all_columns(base), *conditions))
    columns, tests = exprs[: len(base.schema)], exprs[len(base.schema) :]
    if not _whole(below, columns):
        if any(isinstance(e, Catalyst) for test in conditions for e in test.walk()):
            raise script.error("a condition of this split is computed by Spark; split the stream itself", at)
        below = carried(Pushdown(script).push(base), all_columns(base), base.schema.names)
        tests = conditions
    return Split(schema, below, tuple(normalize(e) for e in tests))


def carried(node: Operator, wanted: Exprs, names: Iterable[str] = ()) -> Operator:
    """A node whose output is just these expressions over another."""
    below, exprs = narrowed(node, wanted)
    labels = list(names) or [f"c{i}" for i in range(len(exprs))]
    schema = Schema(tuple(Field(n, e.type) for n, e in zip(labels, exprs, strict=True)))
    if _whole(below, exprs):
        return _labelled(below, schema)
    return Project(schema, below, exprs)


def narrowed(node: Operator, wanted: Exprs) -> tuple[Operator, Exprs]:
    """The smallest node from which the wanted expressions can be computed, and these over its output."""
    match node:
        case Source():
            return node, tuple(_at_source(e) for e in wanted)
        case OtherQuery():
            return node.plan, _normalized(wanted)
        case Project():
            return narrowed(node.input, tuple(substituted(e, node.exprs) for e in wanted))
        case Select():
            below, exprs = narrowed(node.input, (*wanted, *node.predicates))
            count = len(wanted)
            return Select(below.schema, below, conjunction(exprs[count:])), exprs[:count]
        case Union():
            atoms = _atoms(wanted) or all_columns(node)[:1]
            parts = tuple(carried(part, atoms, _names(node, atoms)) for part in node.parts)
            return Union(parts[0].schema, parts), _over(wanted, atoms)
    if not node.narrows:
        return node, _normalized(wanted)
    if node.compares_rows:
        inputs = tuple(carried(each, all_columns(each), each.schema.names) for each in node.inputs)
        return node.with_inputs(inputs).with_expressions(lambda _, e: normalize(e)), wanted
    if node.passes_batches:
        return _through(node, wanted)
    if not node.passes:
        node, places = node.pruned(frozenset(i for e in wanted for i in e.columns))
        made, _ = _through(node, ())
        return made, tuple(normalize(e.moved(places)) for e in wanted)
    return _copied(node, wanted)


def _through(node: Operator, wanted: Exprs) -> tuple[Operator, Exprs]:
    """An operator that takes any columns, over its narrowed input, and expressions that it passes on."""
    (source,) = node.inputs
    own = tuple(expr for scope, expr in node.expressions if scope == 0)
    below, exprs = narrowed(source, (*wanted, *own))
    given = iter(exprs[len(wanted) :])
    made = node.with_inputs((below,)).with_expressions(lambda scope, e: next(given) if scope == 0 else normalize(e))
    return replace(made, schema=below.schema) if node.passes else made, exprs[: len(wanted)]


def _copied(node: Operator, wanted: Exprs) -> tuple[Operator, Exprs]:
    """An operator that keeps or copies rows, over inputs that have only the columns needed for that."""
    everywhere = _atoms((*wanted, *(expr for scope, expr in node.expressions if scope == ALL)))
    inputs: list[Operator] = []
    atoms: list[Exprs] = []
    layout: list[Expr] = []
    start = 0
    for number, each in enumerate(node.inputs):
        stop = start + len(each.schema)
        passed = [a.shifted(-start) for a in everywhere if start <= min(a.columns, default=0) < stop]
        own = _atoms(expr for scope, expr in node.expressions if scope == number)
        atoms.append(_merged(passed, own) or all_columns(each)[:1])
        inputs.append(carried(each, atoms[number]))
        layout += [a.shifted(start) for a in atoms[number]]
        start = stop
    layout += [Column(f.type, start + i) for i, f in enumerate(node.beside)]

    def change(scope: ColumnScope, expr: Expr) -> Expr:
        if scope == TABLE:
            return normalize(expr)
        return _over((expr,), layout if isinstance(scope, str) else atoms[scope])[0]

    fields = tuple(f for number in node.passes for f in inputs[number].schema.fields)
    made = replace(node.with_inputs(tuple(inputs)).with_expressions(change), schema=Schema((*fields, *node.own)))
    return made, _over(wanted, layout)


# -- expressions


def _atoms(exprs: Iterable[Expr]) -> Exprs:
    """The values that expressions are computed from: columns, and calls that only Catalyst computes."""
    found: dict[Expr, None] = {}

    def visit(e: Expr) -> None:
        if isinstance(e, (Column, Catalyst)):
            found[e] = None
            return
        for arg in e.args:
            visit(arg)

    for expr in exprs:
        visit(expr)
    return tuple(sorted(found, key=_order))


def _order(atom: Expr) -> tuple[bool, int, str]:
    return (not isinstance(atom, Column), atom.index if isinstance(atom, Column) else 0, atom.text)


def _merged(first: Iterable[Expr], second: Iterable[Expr]) -> Exprs:
    return tuple(sorted(dict.fromkeys((*first, *second)), key=_order))


def _over(exprs: Exprs, atoms: Iterable[Expr]) -> Exprs:
    """Expressions over a node whose output is just these atoms."""
    places = {a: i for i, a in enumerate(atoms)}

    def change(e: Expr) -> Expr | None:
        return Column(e.type, places[e]) if isinstance(e, (Column, Catalyst)) else None

    return tuple(normalize(e.rewrite(change)) for e in exprs)


def _normalized(exprs: Exprs) -> Exprs:
    return tuple(normalize(e) for e in exprs)


def _at_source(expr: Expr) -> Expr:
    """An expression directly over its source, where Catalyst's results are columns."""

    def change(e: Expr) -> Expr | None:
        return Foreign(e.type, e.sql, e.columns) if isinstance(e, Catalyst) else None

    return normalize(expr.rewrite(change))


def _whole(node: Operator, exprs: Exprs) -> bool:
    """Whether the expressions are just the node's columns, in order."""
    if len(exprs) != len(node.schema):
        return False
    return all(isinstance(e, Column) and e.index == i for i, e in enumerate(exprs))


def _names(node: Operator, atoms: Exprs) -> list[str]:
    return [node.schema[a.index].name if isinstance(a, Column) else f"c{i}" for i, a in enumerate(atoms)]


def _labelled(node: Operator, schema: Schema) -> Operator:
    """The same node with other names for its columns, where names are free; a source's are the stream's."""
    return node if source_of(node) is not None else replace(node, schema=schema)
