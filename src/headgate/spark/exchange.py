"""Divides queries at exchanges, so that a part of their work is done on all replicas before rows come together.

A query whose rows must come together (an aggregate without keys, the top of each window, keys that differ from those
below) is divided into *fragments*. A fragment is an internal query; its results are the rows of an internal stream of
the same name, which the query, or another fragment, reads. Aggregates are divided into partial states, made of each
batch where the rows are, and their merge; a top into candidates and the top of them. Before joins, DISTINCT and what
else cannot be halved, the rows themselves cross, each with the watermark that it had when it entered (`Stamp`).
Where two fragments would send the same rows to the same replicas, as in a join of a subquery with itself, one sends
them for both.

An internal stream has routes like any other, over the columns of the fragment's output; its rows do not pass through
Spark, so replicas hash their keys (`key_slots.py`). For each fragment a replica hands over, at the end of an epoch, the
results that it has taken and the watermark that they reach (`Network.reached`). A receiver takes the rows of all
senders with the next epoch, and then the lowest of the senders' watermarks (`Network.reach`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import combinations

from headgate.expressions.functions import accumulator, fallible
from headgate.graph.event_times import time_of
from headgate.graph.expressions import Call, Column, Expr, Foreign
from headgate.graph.operators import (
    Aggregate,
    Candidates,
    CurrentJoin,
    CurrentTop,
    Distinct,
    Join,
    Merge,
    Operator,
    Partial,
    Send,
    Source,
    Stamp,
    Top,
    Unstamp,
    source_of,
)
from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.graph.types import BIGINT, Field, Schema, is_key
from headgate.runtime.scaling import is_scaled
from headgate.spark.key_slots import ROWS
from headgate.spark.placement import Placement, streams_of
from headgate.spark.splitting import KeyPart, key_parts, keys_of, separable, splitting
from headgate.sql.times import times


@dataclass(frozen=True)
class Copy:
    """An operator in the parts of a query that has the state of a declared one; `half`: its first half, if any."""

    node: Operator
    half: Operator | None = None


@dataclass(frozen=True)
class Division:
    """A query in parts. `fragments` stand before those that read them; each is the internal stream of its name.

    `copies` has, for every operator of the plan as declared, those of the parts that have its state. If there are
    several, each has all of it: the operator reads the same rows in several parts.
    """

    query: Query
    fragments: tuple[Query, ...] = ()
    copies: Mapping[Operator, tuple[Copy, ...]] = field(default_factory=dict, compare=False)

    @property
    def parts(self) -> tuple[Query, ...]:
        """All queries that run in place of the declared one."""
        return (*self.fragments, self.query)

    def places(self, node: Operator) -> Iterator[tuple[str, Operator]]:
        """An operator of the parts, with the name of each part that it is in."""
        return ((part.name, node) for part in self.parts if node in set(part.plan.walk()))


def divided(query: Query, rows: bool = True, once: bool = True) -> Division:
    """A query divided at the exchanges that let a part of it run on all replicas; unchanged if there are none, or if it
    is a part of a divided query. Without `rows`, only partial results cross an exchange; without `once`, equal
    fragments stay apart, as in earlier versions."""
    is_part = isinstance(query.plan, Send) or any(
        stream.startswith(f"{query.name}{INTERNAL}") for stream in streams_of(query.plan)
    )
    # The weights of rows do not cross.
    rows = rows and not is_scaled(query)
    divider = _Divider(query, rows)
    plan = query.plan if is_part else divider.above(query.plan)
    # Each replica publishes its own rows: those with one identity must not be spread.
    if rows and not is_part and query.mode == "append" and (others := set(separable(plan))):
        apart = {node for node, found in divider.copies.items() if any(copy.node in others for copy in found)}
        divider = _Divider(query, rows, frozenset(apart))
        plan = divider.above(query.plan)
    if not divider.fragments:
        return Division(query, (), {node: (Copy(node),) for node in query.plan.walk()})
    copies = {node: tuple(dict.fromkeys(found)) for node, found in divider.copies.items()}
    division = Division(replace(query, plan=plan), tuple(divider.fragments), copies)
    return _sent_once(division) if once else division


def divisions(query: Query) -> Iterator[Division]:
    """All ways in which this version and earlier ones divide a query, this version's first."""
    for rows in (True, False):
        apart = divided(query, rows, once=False)
        yield _sent_once(apart)
        yield apart


def divided_into(query: Query, parts: Set[str]) -> Division | None:
    """The way to divide a query into parts of these names; None if there is none."""
    return next((found for found in divisions(query) if {part.name for part in found.parts} == parts), None)


def division_under(query: Query, placement: Placement) -> Division:
    """The query as it is divided under a placement, which has routes for each of its parts."""
    names = {name for name in placement.routes if name.startswith(f"{query.name}{INTERNAL}")}
    if not names:
        return Division(query, (), {node: (Copy(node),) for node in query.plan.walk()})
    if (found := divided_into(query, names | {query.name})) is not None:
        return found
    raise ValueError(f"query {query.name} was divided at other exchanges, by another version of Headgate: {names}")


# Equal fragments -----------------------------------------------------------------------------------------


def _sent_once(division: Division) -> Division:
    """With one fragment in place of several with equal plans; unchanged if there are none, or if their readers need the
    rows by different keys: a query reads a stream by one route."""
    names: dict[str, str] = {}
    kept: dict[Operator, Query] = {}
    for part in division.fragments:
        plan = _reading(part.plan, names)
        first = kept.setdefault(plan, replace(part, plan=plan))
        if first.name != part.name:
            names[part.name] = first.name
    query = replace(division.query, plan=_reading(division.query.plan, names))
    before = {part.name: part.plan for part in division.parts}
    if not names or not all(_keeps_keys(before[part.name], part.plan, names) for part in (*kept.values(), query)):
        return division
    copies = {
        node: tuple(dict.fromkeys(_copy_reading(copy, names) for copy in found))
        for node, found in division.copies.items()
    }
    return Division(query, tuple(kept.values()), copies)


def _reading(plan: Operator, names: Mapping[str, str]) -> Operator:
    """A plan that reads other streams in place of some."""
    if isinstance(plan, Source):
        return replace(plan, stream=names[plan.stream]) if plan.stream in names else plan
    inputs = tuple(_reading(each, names) for each in plan.inputs)
    same = all(new is old for new, old in zip(inputs, plan.inputs, strict=True))
    return plan if same else plan.with_inputs(inputs)


def _copy_reading(copy: Copy, names: Mapping[str, str]) -> Copy:
    return Copy(_reading(copy.node, names), None if copy.half is None else _reading(copy.half, names))


def _keeps_keys(before: Operator, after: Operator, names: Mapping[str, str]) -> bool:
    """Whether a plan can still be split by all its keys when it reads these streams."""
    old, new = splitting(before), splitting(after)
    if old is None or new is None:
        return old is None
    known = [part for group in new.groups for part in group]
    return all(any(_is_part(key, part, names) for part in known) for group in old.groups for key in group)


def _is_part(key: KeyPart, of: KeyPart, names: Mapping[str, str]) -> bool:
    return all(of.get(names.get(stream, stream)) == expr for stream, expr in key.items())


class _Divider:
    """Divides one query: collects its fragments, and maps its operators to those of the parts. The results of operators
    that are `apart` cross an exchange too: they cannot be split by the keys of the others."""

    def __init__(self, query: Query, rows: bool, apart: frozenset[Operator] = frozenset()) -> None:
        self._query = query
        self._rows = rows
        self._apart = apart
        # A fragment is scaled if the whole query is, although it may be an aggregate where that is none.
        self._spec = replace(query.spec, scaled=True if is_scaled(query) else None)
        self.fragments: list[Query] = []
        self.copies: dict[Operator, list[Copy]] = {}
        self._known: dict[tuple[Operator, int], tuple[Operator, list[Query], dict[Operator, list[Copy]]]] = {}

    def above(self, node: Operator) -> Operator:
        """The plan with its topmost stateful operators divided where all their rows must come together.

        What is tried in several ways above an operator is found once: it depends on the number of fragments before it.
        """
        count = len(self.fragments)
        if (node, count) not in self._known:
            before, self.copies = self.copies, {}
            made = self._above(node)
            self._known[node, count] = made, self.fragments[count:], self.copies
            self.fragments, self.copies = self.fragments[:count], before
        made, fragments, copies = self._known[node, count]
        self.fragments += fragments
        for each, found in copies.items():
            self.copies.setdefault(each, []).extend(found)
        return made

    def _above(self, node: Operator) -> Operator:
        if node.partition_keys is None:
            return self._over(node, tuple(self.above(each) for each in node.inputs))
        made = self._made(node)
        return Unstamp(made.schema, self._sent(Stamp.over(made, ()), ROWS)) if node in self._apart else made

    def _made(self, node: Operator) -> Operator:
        """A stateful operator, divided if it has no keys of the streams."""
        if not keys_of(node):
            if isinstance(node, Aggregate) and mergeable(node):
                return self._divided(Partial(partial_states(node), node.input, node), node)
            if isinstance(node, Top):
                given, top = node.input, (node.partition, node.order, node.count, node.ranking, node.time)
                return self._divided(Candidates(given.schema, given, *top), node)
            if self._rows and (second := self._over_parts(node) or self._fed_by_rows(node)) is not None:
                return second
        return self._unchanged(node)

    def _unchanged(self, node: Operator) -> Operator:
        for each in node.walk():
            self._note(each, Copy(each))
        return node

    def _over(self, node: Operator, inputs: tuple[Operator, ...]) -> Operator:
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        made = node if same else node.with_inputs(inputs)
        self._note(node, Copy(made))
        return made

    def _note(self, node: Operator, copy: Copy) -> None:
        self.copies.setdefault(node, []).append(copy)

    def _divided(self, half: Operator, node: Operator) -> Operator:
        """The second half of an operator over the internal stream of the first; the operator itself if the first half
        would run on one replica too."""
        inputs = tuple(self.above(each) for each in half.inputs)
        half = half.with_inputs(inputs)
        if splitting(half) is None:
            return self._over(node, inputs)
        source = self._sent(half, INTERNAL)
        second = Merge(node.schema, source, node) if isinstance(node, Aggregate) else node.with_inputs((source,))
        self._note(node, Copy(second, half))
        return second

    def _sent(self, rows: Operator, mark: str) -> Source:
        """The internal stream of a new fragment with these rows."""
        name = f"{self._query.name}{mark}{len(self.fragments)}"
        plan = Send(rows.schema, rows)
        part = replace(self._query, name=name, plan=plan, schema=rows.schema)
        self.fragments.append(replace(part, sinks=(), mode="append", spec=self._spec))
        return Source(rows.schema, name)

    def _over_parts(self, node: Operator) -> Operator | None:
        """The operator over its inputs divided, if an exchange below has already brought its keys together. None, and
        nothing has changed, if not."""
        before = self._state()
        second = self._over(node, tuple(self.above(each) for each in node.inputs))
        # Keys of partial results have another hash than those of rows.
        hashes = {INTERNAL in stream and ROWS not in stream for stream in streams_of(second)}
        changed = [number for number, each in enumerate(node.inputs) if second.inputs[number] is not each]
        exchangeable = changed and all(_exchangeable(node, number) for number in changed)
        if exchangeable and len(hashes) == 1 and _keyed(second, node):
            return second
        self.fragments, self.copies = before
        return None

    def _state(self) -> tuple[list[Query], dict[Operator, list[Copy]]]:
        """What is collected so far."""
        return list(self.fragments), {each: list(found) for each, found in self.copies.items()}

    # Rows ------------------------------------------------------------------------------------------------

    def _fed_by_rows(self, node: Operator) -> Operator | None:
        """An operator over the internal streams of some of its inputs: of as few as give it a key, or, if it has none
        anyway, of all that have work to do before it. None if no exchange helps."""
        able = [number for number, each in enumerate(node.inputs) if _sendable(node, number)]
        some = [chosen for count in range(1, len(able) + 1) for chosen in combinations(able, count)]
        worth = tuple(number for number in able if _has_state(node.inputs[number]))
        for test in (_keyed, _keyed_by_time):
            for chosen in some:
                if (found := self._tried(node, chosen, test)) is not None:
                    return found
        return self._tried(node, worth, lambda *_: True) if worth else None

    def _tried(
        self, node: Operator, chosen: Sequence[int], test: Callable[[Operator, Operator], bool]
    ) -> Operator | None:
        """The operator over internal streams of the chosen inputs; None, and nothing has changed, if it does not pass
        the test, or if an input would run on one replica."""
        before = self._state()
        inputs = [
            self._received(node, number) if number in chosen else self._unchanged(each)
            for number, each in enumerate(node.inputs)
        ]
        given = [each for each in inputs if each is not None]
        if len(given) == len(inputs):
            second = node.with_inputs(tuple(given))
            if test(second, node):
                self._note(node, Copy(second))
                return second
        self.fragments, self.copies = before
        return None

    def _received(self, node: Operator, number: int) -> Operator | None:
        """An input of an operator after an exchange; None if all of it would run on one replica before."""
        rows = self.above(node.inputs[number])
        if splitting(rows) is None:
            return None
        keys = [exprs[number] for exprs in node.partition_keys or ()]
        stamped = tuple(dict.fromkeys(key for key in keys if _is_stamped(key)))
        source = self._sent(Stamp.over(rows, stamped), ROWS)
        return Unstamp(rows.schema, source, stamped)


def _keyed(second: Operator, declared: Operator) -> bool:
    """Whether an operator has keys of its streams that are more than event times, by which all rows of a moment would
    go to one replica. `declared`: the operator over the inputs whose event times are known."""
    known = [times(each) for each in declared.inputs]
    keys = zip(key_parts(second), declared.partition_keys or (), strict=True)
    return bool(keys_of(second)) and any(
        part is not None and any(time_of(expr, own) is None for expr, own in zip(exprs, known, strict=True))
        for part, exprs in keys
    )


def _keyed_by_time(second: Operator, declared: Operator) -> bool:
    """Whether an operator has keys of its streams."""
    return bool(keys_of(second))


def _exchangeable(node: Operator, number: int) -> bool:
    """Whether the rows of an input may have crossed an exchange: if their order does not matter, or only that of the
    rows with one identity, which is kept. Changes of current rows take effect between two watermarks of their side, of
    which only the last one crosses."""
    if isinstance(node, CurrentJoin):
        return number == 0
    if isinstance(node, Aggregate):
        by_time = node.window is None or node.window.kind != "rows"
        return by_time and not any(accumulator(call).needs_order for call in node.calls)
    return isinstance(node, (Join, Distinct, CurrentTop))


def _sendable(node: Operator, number: int) -> bool:
    """Whether an input of an operator may be sent to it. What Catalyst computes for the rows of a stream does not
    cross. Without state below, sending all rows must give a key that has more than the event time."""
    rows = node.inputs[number]
    if not _exchangeable(node, number):
        return False
    if source_of(rows) is not None and any(
        isinstance(part, Foreign) for _, expr in node.expressions for part in expr.walk()
    ):
        return False
    if _has_state(rows):
        return True
    known = times(rows)
    return any(time_of(exprs[number], known) is None for exprs in node.partition_keys or ())


def _has_state(plan: Operator) -> bool:
    return any(each.partition_keys is not None for each in plan.walk())


def _is_stamped(key: Expr) -> bool:
    """Whether the key is computed before the exchange, where an error fails the query: the receivers would compute it
    outside of its operators."""
    if isinstance(key, Column) or not key.columns or not is_key(key.type):
        return False
    return fallible(key) or any(isinstance(part, Call) and part.name == "python" for part in key.walk())


def mergeable(node: Aggregate) -> bool:
    """Whether partial states can be merged: not of sessions, windows of rows and functions that depend on the order of
    rows, which replicas do not share."""
    if node.window is not None and node.window.kind != "time":
        return False
    return not any(accumulator(call).needs_order for call in node.calls)


def partial_states(node: Aggregate) -> Schema:
    """The columns of partial states."""
    keys = [Field(f"key{number}", key.type) for number, key in enumerate(node.keys)]
    types = [type_ for call in node.calls for type_ in accumulator(call).types]
    return Schema((Field("pane", BIGINT), *keys, *(Field(f"state{n}", type_) for n, type_ in enumerate(types))))
