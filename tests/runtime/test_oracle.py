"""The oracle's cases through the network: the same rows under every policy, mode and length of train.

The oracle's own tests compare the in-process runner with Spark, so the runner's answer is what is expected here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime import Folder, Limits, Network, settled
from headgate.scheduling import policies
from headgate.sql import Catalog
from tests.oracle.answers import FLOATS, Answer, differences
from tests.oracle.cases import Case, load_all
from tests.oracle.headgate_side import answer, foreign, given

POLICIES = sorted({cls.name for cls in policies().values()} - {"mss", "tuple-greedy"})
MODES = ("policy", "direct", "graph", "operator", "hybrid")
TRAINS = (1, 3, 100, 100_000)


class NeedsSpark(Exception):
    """The case has an expression whose type only Spark knows, or that Catalyst computes."""


def _no_spark(*_: object) -> pa.DataType:
    raise NeedsSpark


@cache
def compiled() -> list[tuple[Case, Query]]:
    """The cases that need no Spark."""
    found = []
    for case in load_all():
        if case.fails is not None:
            continue
        catalog = Catalog(type_of=_no_spark, time_zone=case.zone)
        try:
            catalog.execute(case.setup, file=str(case.file))
            if case.statements:
                catalog.execute(case.statements + ";", file=str(case.file))
            query = catalog.query("result", case.query)
        except NeedsSpark:
            continue
        if not foreign(query.plan) and not _fails(case, query):
            found.append((case, query))
    return found


def _fails(case: Case, query: Query) -> bool:
    """Whether the query fails on its rows; then there is nothing to compare."""
    try:
        answer(case, query, given(case), None)
    except ValueError:
        return True
    return False


def network_of(case: Case, query: Query, policy: str, mode: str, **options: object) -> Network:
    graph = SharedGraph()
    graph.add(query)
    tables = {name: pa.Table.from_batches(case.batches[name]) for name, of in case.inputs.items() if of.static}
    return Network(graph, policy, Settings(tables=tables), mode=mode, threads=3, **options)  # type: ignore[arg-type]


def pushes(case: Case, network: Network) -> Iterator[tuple[str, pa.RecordBatch]]:
    return ((stream, batch) for stream, batch in given(case) if stream in network.streams)


@cache
def expected(number: int) -> Answer:
    """What the in-process runner answers, which the oracle's own tests compare with Spark."""
    case, query = compiled()[number]
    return answer(case, query, given(case), None)


def check(number: int, network: Network, said: str) -> None:
    case, query = compiled()[number]
    network.finish()
    assert network.run().done
    assert not network.failures, said
    found = Answer.of(settled(query, network.take("result")))
    assert found.header == expected(number).header
    wrong = differences(found.rows, expected(number).rows, float(case.options.get("within", FLOATS)))
    assert not wrong, f"{case.file}:{case.line} under {said}\n{wrong}"
    assert network.held_bytes == 0
    network.close()


def test_most_cases_need_no_spark() -> None:
    assert len(compiled()) >= 100


@pytest.mark.parametrize("turn", range(5))
def test_every_case_in_turn(turn: int) -> None:
    """Each case in every mode, under policies and trains that change from case to case."""
    for number in range(len(compiled())):
        place = number + turn * 7
        one_case(
            number, POLICIES[place % len(POLICIES)], MODES[(number + turn) % len(MODES)], TRAINS[place % len(TRAINS)]
        )


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_case_under_everything(policy: str, mode: str) -> None:
    for number in range(len(compiled())):
        for rows in TRAINS if takes_rows(policy) else TRAINS[:1]:
            one_case(number, policy, mode, rows)


def one_case(number: int, policy: str, mode: str, rows: int) -> None:
    case, query = compiled()[number]
    text = f"{policy}:rows={rows}" if takes_rows(policy) else policy
    network = network_of(case, query, text, mode)
    for turn, (stream, batch) in enumerate(pushes(case, network)):
        network.push(stream, batch)
        if turn % 2:
            network.run(0.0 if turn % 3 else None)
    check(number, network, f"{text}, {mode}")


@cache
def takes_rows(policy: str) -> bool:
    return "rows" in getattr(policies()[policy], "__dataclass_fields__", {})


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_changes_restarts_and_spills_at_random_moments(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    store = Folder(tmp_path, keep=True)
    for number, (case, query) in enumerate(compiled()):
        limits = Limits(memory=chance.choice([None, 1, 2000]))
        network = network_of(case, query, chance.choice(POLICIES), chance.choice(MODES), store=store, limits=limits)
        said = []
        for stream, batch in pushes(case, network):
            network.push(stream, batch)
            for _ in range(chance.randrange(3)):
                step = chance.randrange(4)
                if step == 0:
                    network.policy = chance.choice(POLICIES)
                    said.append(str(network.policy))
                elif step == 1:
                    network.mode = chance.choice(MODES)
                    said.append(network.mode)
                elif step == 2:
                    network.run(0.0)
                    said.append("run")
                else:
                    manifest = json.loads(json.dumps(network.snapshot()))
                    network.close()
                    network = network_of(
                        case, query, chance.choice(POLICIES), chance.choice(MODES), store=store, limits=limits
                    )
                    network.restore(manifest)
                    said.append(f"restart {network.policy} {network.mode}")
        check(number, network, f"seed {seed}: {said}")
