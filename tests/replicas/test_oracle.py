"""The oracle's cases on several replicas: the rows of Spark SQL, whatever the number of replicas."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headgate.spark.exchange import divided
from headgate.spark.placement import Placement
from headgate.spark.placing import place
from tests.oracle.answers import FLOATS, Answer, differences
from tests.replicas.harness import Replicas, any_placement, apart, in_fragments, sends_rows
from tests.runtime.oracle_groups import Expected, Group, groups

pytestmark = pytest.mark.spark

GROUPS = groups()
BY_KEY = ("by the key of an aggregate over an aggregate", "by the keys of aggregates over aggregates")
GroupOf = Callable[[str], Group]


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.slow), 2, 4])
@pytest.mark.parametrize("name", list(GROUPS))
def test_the_expected_rows(name: str, replicas: int, group_of: GroupOf) -> None:
    group = group_of(name)
    queries = [each.query for each in group.expected]
    running = Replicas(queries, place(queries, replicas), group.settings)
    for stream, batch in group.pushes:
        running.epoch([(stream, batch)])
    check(running, group)


@pytest.mark.parametrize("name", list(GROUPS))
def test_each_query_split_by_its_own_key(name: str, group_of: GroupOf) -> None:
    """Placed alone, a query is split wherever it can be: the main keys are its own."""
    group = group_of(name)
    queries = [each.query for each in group.expected]
    alone = {query.name: place([query], 3).routes[query.name] for query in queries}
    running = Replicas(queries, Placement(3, alone), group.settings)
    for stream, batch in group.pushes:
        running.epoch([(stream, batch)])
    check(running, group)


@pytest.mark.parametrize("replicas", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(GROUPS))
def test_divided_at_exchanges(name: str, replicas: int, group_of: GroupOf) -> None:
    """Aggregates without keys, tops of windows and changes of keys; rescaled now and then."""
    group = group_of(name)
    declared = [each.query for each in group.expected]
    queries = in_fragments(declared)
    chance = Random(name)
    running = Replicas(queries, place(queries, replicas), group.settings, declared)
    for stream, batch in group.pushes:
        running.epoch([(stream, batch)])
        if chance.random() < 0.4:
            now = chance.choice([declared, queries])
            running.rescale(place(now, chance.choice([1, 2, 3, 4])), now)
    check(running, group)


@pytest.mark.parametrize("name", [name for name in GROUPS if name.startswith(("exchange", "current"))])
def test_rows_cross_exchanges(name: str, group_of: GroupOf) -> None:
    """Each part is split by its own keys, wherever that is possible; rescaled now and then, also to one replica and to
    placements of the versions that sent no rows, or equal rows twice."""
    group = group_of(name)
    declared = [each.query for each in group.expected]
    ways = [*(in_fragments(declared, *way) for way in ((True,), (True, False), (False,))), declared]
    chance = Random(name)
    running = Replicas(ways[0], apart(ways[0], 3), group.settings, declared)
    for stream, batch in group.pushes:
        running.epoch([(stream, batch)])
        if chance.random() < 0.4:
            now = chance.choice(ways)
            running.rescale(apart(now, chance.choice([1, 2, 4])), now)
    check(running, group)


def test_the_cases_of_exchanges_are_divided(group_of: GroupOf) -> None:
    """Every case sends rows, unless partial results bring its keys together; its parts run on all replicas, unless all
    rows must come together there."""
    seen, together = set(), set()
    for name in GROUPS:
        if name.startswith("exchange"):
            for each in group_of(name).expected:
                division = divided(each.query)
                assert sends_rows(division) != each.case.name.endswith(BY_KEY), each.case.name
                assert division.fragments, each.case.name
                found = apart(division.parts, 2)
                seen.add(each.case.name)
                together |= {each.case.name for part in division.parts if found.replica_of(part.name) is not None}
    assert together == {"the most frequent of all", "a grouping and a total"}
    assert len(seen) > 25


@pytest.mark.parametrize("name", list(GROUPS))
def test_rescaled_in_the_middle(name: str, group_of: GroupOf) -> None:
    """Another number of replicas, or other routes for the same number, after every batch."""
    group = group_of(name)
    queries = [each.query for each in group.expected]
    chance = Random(name)
    running = Replicas(queries, place(queries, 1), group.settings)
    for stream, batch in group.pushes:
        running.epoch([(stream, batch)])
        running.rescale(any_placement(queries, chance))
    check(running, group)


def check(running: Replicas, group: Group) -> None:
    """Ends the streams and compares every query."""
    running.finish()
    wrong = [found for each in group.expected if (found := differing(each, running))]
    running.close()
    assert not wrong, "\n".join(wrong)


def differing(each: Expected, running: Replicas) -> str:
    """The differences between the results of all replicas and the expected ones."""
    case, name = each.case, each.query.name
    failure = running.failures.get(name)
    where = f"{case.file}:{case.line} {running.placement.routes[name]}"
    if case.fails is not None:
        failed = failure is not None and case.fails.split(".")[0] in str(failure)
        return "" if failed else f"{where}: should fail with {case.fails}, but {failure}"
    if failure is not None:
        return f"{where}: {failure}"
    found = Answer.of(running.table(name))
    header, rows = each.answer
    if found.header != header:
        return f"{where}: {found.header} instead of {header}"
    wrong = differences(found.rows, rows, float(case.options.get("within", FLOATS)))
    return f"{where}\n{wrong}" if wrong else ""
