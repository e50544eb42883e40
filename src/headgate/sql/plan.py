"""Makes the plan of a query: projections merged, only needed columns carried, Catalyst's expressions at the source.

One function does it, from the top down: `narrowed` takes a node and the expressions wanted over its output, and
gives the smallest node and the same expressions over that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.expressions.normalize import conjunction, normalize
from headgate.graph.expressions import Column, Expr, Foreign
from headgate.graph.operators import (
    Aggregate,
    AggregateCall,
    Distinct,
    Expand,
    Join,
    Lookup,
    Operator,
    Project,
    Select,
    Source,
    Split,
    TimeBound,
    Top,
    Union,
)
from headgate.graph.types import Field, Schema
from headgate.sql.errors import Script
from headgate.sql.foreign import Catalyst
from headgate.sql.pushdown import Pushdown, substituted
from headgate.sql.relation import Named, Relation

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
    below, exprs = narrowed(Pushdown(script).push(base), (*_all(base), *conditions))
    columns, tests = exprs[: len(base.schema)], exprs[len(base.schema) :]
    if not _whole(below, columns):
        if any(isinstance(e, Catalyst) for test in conditions for e in test.walk()):
            raise script.error("a condition of this split is computed by Spark; split the stream itself", at)
        below = carried(Pushdown(script).push(base), _all(base), base.schema.names)
        tests = conditions
    return Split(schema, below, tuple(normalize(e) for e in tests))


def carried(node: Operator, wanted: Exprs, names: Iterable[str] = ()) -> Operator:
    """A node that puts out just these expressions over another."""
    below, exprs = narrowed(node, wanted)
    labels = list(names) or [f"c{i}" for i in range(len(exprs))]
    schema = Schema(tuple(Field(n, e.type) for n, e in zip(labels, exprs, strict=True)))
    if _whole(below, exprs):
        return _labelled(below, schema)
    return Project(schema, below, exprs)


def narrowed(node: Operator, wanted: Exprs) -> tuple[Operator, Exprs]:
    """The smallest node that still gives the wanted expressions, and these over its output."""
    match node:
        case Source():
            return node, tuple(_at_source(e) for e in wanted)
        case Named():
            return node.plan, tuple(normalize(e) for e in wanted)
        case Select():
            below, exprs = narrowed(node.input, (*wanted, *node.predicates))
            count = len(wanted)
            return Select(below.schema, below, conjunction(exprs[count:])), exprs[:count]
        case Project():
            return narrowed(node.input, tuple(substituted(e, node.exprs) for e in wanted))
        case Aggregate():
            return _aggregate(node, wanted)
        case Join():
            return _join(node, wanted)
        case Lookup():
            return _lookup(node, wanted)
        case Union():
            atoms = _atoms(wanted) or (Column(node.schema[0].type, 0),)
            parts = tuple(carried(part, atoms, _names(node, atoms)) for part in node.parts)
            return Union(parts[0].schema, parts), _over(wanted, atoms)
        case Distinct():
            below = carried(node.input, _all(node.input), node.schema.names)
            return Distinct(below.schema, below, normalize(node.time)), wanted
        case Expand():
            return _expand(node, wanted)
        case Top():
            return _top(node, wanted)
        case Split():
            return node, tuple(normalize(e) for e in wanted)
    raise TypeError(f"no rule for {node.kind}")


# -- each kind


def _aggregate(node: Aggregate, wanted: Exprs) -> tuple[Operator, Exprs]:
    """Drops the aggregates that nobody reads."""
    first = (1 if node.window is not None else 0) + len(node.keys)
    having = () if node.having is None else (node.having,)
    used = {i for e in (*wanted, *having) for i in e.columns}
    calls = [(i, c) for i, c in enumerate(node.calls, first) if i in used]
    on = () if node.window is None or node.window.on is None else (node.window.on,)
    inputs: list[Expr] = [*on, *node.keys]
    for _, c in calls:
        inputs += [*c.args, *(() if c.where is None else (c.where,))]
    below, exprs = narrowed(node.input, tuple(inputs))
    given = iter(exprs)
    window = node.window
    if window is not None and on:
        window = replace(window, on=next(given))
    keys = tuple(next(given) for _ in node.keys)
    kept = []
    for _, c in calls:
        args = tuple(next(given) for _ in c.args)
        where = None if c.where is None else next(given)
        kept.append(AggregateCall(c.name, args, c.type, c.distinct, where, c.option))
    places = {i: i for i in range(first)} | {old: first + new for new, (old, _) in enumerate(calls)}
    if node.window is None:
        places[len(node.schema) - 1] = first + len(kept)
    fields = tuple(node.schema[i] for i in sorted(places))
    condition = None if node.having is None else normalize(node.having.moved(places))
    made = Aggregate(Schema(fields), below, keys, tuple(kept), window, condition)
    return made, tuple(normalize(e.moved(places)) for e in wanted)


def _join(node: Join, wanted: Exprs) -> tuple[Operator, Exprs]:
    width = len(node.left.schema)
    both = _atoms((*wanted, *node.residual))
    left = [a for a in both if not a.columns or min(a.columns) < width]
    right = [_moved(a, -width) for a in both if a.columns and min(a.columns) >= width]
    left_atoms = _merged(left, _atoms((*node.left_keys, node.bound.left)))
    right_atoms = _merged(right, _atoms((*node.right_keys, node.bound.right)))
    below = (carried(node.left, left_atoms), carried(node.right, right_atoms))
    atoms = (*left_atoms, *(_moved(a, width) for a in right_atoms))
    schema = below[0].schema
    if node.how not in ("semi", "anti"):
        schema = Schema(schema.fields + below[1].schema.fields)
    (left_time,) = _over((node.bound.left,), left_atoms)
    (right_time,) = _over((node.bound.right,), right_atoms)
    bound = TimeBound(left_time, right_time, node.bound.low, node.bound.high)
    made = Join(
        schema,
        *below,
        node.how,
        _over(node.left_keys, left_atoms),
        _over(node.right_keys, right_atoms),
        bound,
        _over(node.residual, atoms),
    )
    return made, _over(wanted, atoms)


def _lookup(node: Lookup, wanted: Exprs) -> tuple[Operator, Exprs]:
    width = len(node.input.schema)
    both = _atoms((*wanted, *node.residual))
    stream = _merged([a for a in both if not a.columns or min(a.columns) < width], _atoms(node.keys))
    stream = stream or (Column(node.input.schema[0].type, 0),)
    table = tuple(Column(f.type, width + i) for i, f in enumerate(node.table_schema.fields))
    atoms = (*stream, *table)
    below = carried(node.input, stream)
    schema = below.schema
    if node.how not in ("semi", "anti"):
        schema = Schema(schema.fields + node.table_schema.fields)
    made = replace(
        node,
        schema=schema,
        input=below,
        keys=_over(node.keys, stream),
        table_keys=tuple(normalize(k) for k in node.table_keys),
        residual=_over(node.residual, atoms),
    )
    return made, _over(wanted, atoms)


def _expand(node: Expand, wanted: Exprs) -> tuple[Operator, Exprs]:
    last = len(node.schema) - 1
    assert node.window.on is not None
    atoms = _merged([a for a in _atoms(wanted) if last not in a.columns], _atoms((node.window.on,)))
    below = carried(node.input, atoms)
    window = replace(node.window, on=_over((node.window.on,), atoms)[0])
    made = Expand(Schema((*below.schema.fields, node.schema[last])), below, window)
    return made, _over(wanted, (*atoms, Column(node.schema[last].type, last)))


def _top(node: Top, wanted: Exprs) -> tuple[Operator, Exprs]:
    last = len(node.schema) - 1
    inside = _atoms((*node.partition, *(o.expr for o in node.order), node.time))
    atoms = _merged([a for a in _atoms(wanted) if last not in a.columns], inside)
    below = carried(node.input, atoms)
    made = replace(
        node,
        schema=Schema((*below.schema.fields, node.schema[last])),
        input=below,
        partition=_over(node.partition, atoms),
        order=tuple(replace(o, expr=_over((o.expr,), atoms)[0]) for o in node.order),
        time=_over((node.time,), atoms)[0],
    )
    return made, _over(wanted, (*atoms, Column(node.schema[last].type, last)))


# -- expressions


def _atoms(exprs: Iterable[Expr]) -> Exprs:
    """What must be carried so that expressions can be computed later: columns, and what only Catalyst computes."""
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


def _over(exprs: Exprs, atoms: Exprs) -> Exprs:
    """Expressions over a node that puts out just these atoms."""
    places = {a: i for i, a in enumerate(atoms)}

    def change(e: Expr) -> Expr | None:
        return Column(e.type, places[e]) if isinstance(e, (Column, Catalyst)) else None

    return tuple(normalize(e.rewrite(change)) for e in exprs)


def _at_source(expr: Expr) -> Expr:
    """An expression beside its source: what Catalyst computes is there."""

    def change(e: Expr) -> Expr | None:
        return Foreign(e.type, e.sql, e.columns) if isinstance(e, Catalyst) else None

    return normalize(expr.rewrite(change))


def _moved(expr: Expr, by: int) -> Expr:
    return expr.rewrite(lambda e: Column(e.type, e.index + by) if isinstance(e, Column) else None)


def _all(node: Operator) -> Exprs:
    return tuple(Column(f.type, i) for i, f in enumerate(node.schema.fields))


def _whole(node: Operator, exprs: Exprs) -> bool:
    """Whether the expressions are just the node's columns, in order."""
    if len(exprs) != len(node.schema):
        return False
    return all(isinstance(e, Column) and e.index == i for i, e in enumerate(exprs))


def _names(node: Operator, atoms: Exprs) -> list[str]:
    return [node.schema[a.index].name if isinstance(a, Column) else f"c{i}" for i, a in enumerate(atoms)]


def _labelled(node: Operator, schema: Schema) -> Operator:
    """The same node with other names for its columns, where names are free; a source's are the stream's."""
    if isinstance(node, Source) or (isinstance(node, Select) and _reaches_source(node)):
        return node
    return replace(node, schema=schema)


def _reaches_source(node: Operator) -> bool:
    while isinstance(node, Select):
        node = node.input
    return isinstance(node, Source)
