"""Generated queries over generated rows: several replicas give what one runner gives."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.graph.queries import Query
from headgate.spark.exchange import divided
from headgate.spark.placement import Placement
from headgate.spark.placing import place
from headgate.sql.errors import SqlError
from tests.oracle import headgate_side
from tests.oracle.answers import Answer, differences
from tests.oracle.cases import Case
from tests.oracle.compose import composed
from tests.oracle.generate import cases
from tests.replicas.harness import Replicas, any_owners, any_placement, apart, in_fragments, sends_rows

ANY = cases() | composed()


def compiled(generated: list[Case]) -> list[tuple[Case, Query]]:
    """The queries that need nothing of Catalyst."""
    found = []
    for case in generated:
        try:
            found.append((case, headgate_side.compiled(case, None, case.name)))
        except SqlError:
            continue
    return found


def check(running: Replicas, wanted: dict[str, Answer], queries: list[tuple[Case, Query]]) -> None:
    """The same names, types and rows."""
    assert not running.failures
    for case, query in queries:
        got = Answer.of(running.table(query.name))
        assert got.header == wanted[query.name].header
        wrong = differences(got.rows, wanted[query.name].rows)
        assert not wrong, (
            f"{running.placement.routes[query.name]}\n{case.setup}\n{case.statements}\n{case.query}\n{wrong}"
        )


@given(generated=ANY)
def test_several_replicas_give_what_one_gives(generated: list[Case]) -> None:
    found = compiled(generated)
    queries = [query for _, query in found]
    wanted = headgate_side.answers(generated[0], queries, headgate_side.given(generated[0]))
    placements = [place(queries, replicas) for replicas in (1, 2, 4)]
    placements.append(Placement(3, {query.name: place([query], 3).routes[query.name] for query in queries}))
    for placement in placements:
        running = Replicas(queries, placement, headgate_side.settings_of(generated[0]))
        for stream, batch in headgate_side.given(generated[0]):
            running.epoch([(stream, batch)])
        running.finish()
        check(running, wanted, found)
        running.close()


@given(generated=ANY, seed=st.integers(0, 1000))
def test_rescaled_in_the_middle(generated: list[Case], seed: int) -> None:
    found = compiled(generated)
    queries = [query for _, query in found]
    chance = Random(seed)
    wanted = headgate_side.answers(generated[0], queries, headgate_side.given(generated[0]))
    running = Replicas(queries, place(queries, 1), headgate_side.settings_of(generated[0]))
    numbers = [2, 4, 1, 3]
    for stream, batch in headgate_side.given(generated[0]):
        running.epoch([(stream, batch)])
        placement = place(queries, numbers.pop(0)) if numbers else any_placement(queries, chance)
        running.rescale(placement)
    running.finish()
    check(running, wanted, found)
    running.close()


@given(generated=ANY, seed=st.integers(0, 1000))
def test_key_slots_move_in_the_middle(generated: list[Case], seed: int) -> None:
    found = compiled(generated)
    queries = [query for _, query in found]
    chance = Random(seed)
    wanted = headgate_side.answers(generated[0], queries, headgate_side.given(generated[0]))
    replicas = chance.choice([2, 3, 4])
    placement = place(queries, replicas)
    running = Replicas(queries, any_owners(placement, chance), headgate_side.settings_of(generated[0]))
    for stream, batch in headgate_side.given(generated[0]):
        running.epoch([(stream, batch)])
        running.rescale(any_owners(placement, chance))
    running.finish()
    check(running, wanted, found)
    running.close()


@given(generated=ANY, seed=st.integers(0, 1000))
def test_divided_at_exchanges(generated: list[Case], seed: int) -> None:
    found = compiled(generated)
    chance = Random(seed)
    wanted = headgate_side.answers(generated[0], [query for _, query in found], headgate_side.given(generated[0]))
    declared = [query for _, query in found]
    queries = in_fragments(declared)
    tables = headgate_side.settings_of(generated[0])
    running = Replicas(queries, place(queries, chance.choice([2, 3])), tables, declared)
    for stream, batch in headgate_side.given(generated[0]):
        running.epoch([(stream, batch)])
        if chance.random() < 0.4:
            now = chance.choice([declared, queries])
            running.rescale(any_owners(place(now, chance.choice([1, 2, 3, 4])), chance), now)
    running.finish()
    check(running, wanted, found)
    running.close()


@settings(max_examples=settings().max_examples // 4)
@given(generated=cases(queries=4, regrouped=True), seed=st.integers(0, 1000))
def test_rows_cross_exchanges_where_keys_change(generated: list[Case], seed: int) -> None:
    """On 1, 2 and 4 replicas, and moved between them, and from and to placements that send no rows."""
    found = compiled(generated)
    assert len(found) == len(generated)
    chance = Random(seed)
    wanted = headgate_side.answers(generated[0], [query for _, query in found], headgate_side.given(generated[0]))
    declared = [query for _, query in found]
    ways = [in_fragments(declared), in_fragments(declared, rows=False), declared]
    assert all(sends_rows(divided(query)) for query in declared)
    for replicas in (1, 2, 4):
        queries = ways[0]
        running = Replicas(queries, any_owners(apart(queries, replicas), chance), declared=declared)
        for stream, batch in headgate_side.given(generated[0]):
            running.epoch([(stream, batch)])
            if chance.random() < 0.5:
                queries = chance.choice(ways)
                number = chance.choice([1, 2, 4])
                running.rescale(any_owners(apart(queries, number), chance), queries)
        running.finish()
        check(running, wanted, found)
        running.close()
