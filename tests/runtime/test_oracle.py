"""The oracle's cases through the network: the rows of Spark SQL under every policy, mode and train size."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from math import ceil
from pathlib import Path

import pytest

from headgate.runtime import Folder, Limits, Network
from tests.runtime.oracle_groups import Group, groups
from tests.runtime.ways import MODES, POLICIES, takes_rows, with_trains

pytestmark = pytest.mark.spark

TRAINS = (1, 3, 100, 100_000)
GROUPS = groups()
EVERY = list(product(POLICIES, MODES))
# As many as it takes until each policy has run in each mode.
ROUNDS = max(5, ceil(len(EVERY) / len(GROUPS)))
every_group = pytest.mark.parametrize("name", list(GROUPS))
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 11))]

GroupOf = Callable[[str], Group]


def sample(name: str) -> list[tuple[str, str, int]]:
    """Combinations of policy, mode and train size for a group, different ones for each group."""
    start = list(GROUPS).index(name)
    places = [start + turn * len(GROUPS) for turn in range(ROUNDS)]
    return [(*EVERY[place % len(EVERY)], TRAINS[place % len(TRAINS)]) for place in places]


def test_the_sample_covers_every_policy_mode_and_train_size() -> None:
    ways = [way for name in GROUPS for way in sample(name)]
    assert {(policy, mode) for policy, mode, _ in ways} == set(EVERY)
    assert {rows for _, _, rows in ways} == set(TRAINS)
    assert sum(len(cases) for cases in GROUPS.values()) >= 300


@every_group
def test_a_sample_of_combinations_gives_the_expected_rows(name: str, group_of: GroupOf) -> None:
    for policy, mode, rows in sample(name):
        run(group_of(name), with_trains(policy, rows), mode)


# Without queues neither policy nor train matter.
PRODUCT = [(policy, mode) for policy, mode in EVERY if mode != "direct" or policy == "fifo"]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "mode"), PRODUCT)
def test_every_combination_gives_the_expected_rows(policy: str, mode: str, group_of: GroupOf) -> None:
    for name in GROUPS:
        for rows in TRAINS if takes_rows(policy) and mode != "direct" else TRAINS[:1]:
            run(group_of(name), with_trains(policy, rows), mode)


def run(group: Group, policy: str, mode: str) -> None:
    """Processes some of the rows now and then, so that others are always waiting."""
    network = group.network(policy, mode)
    for turn, (stream, batch) in enumerate(group.pushes):
        if stream in network.streams:
            network.push(stream, batch)
        if turn % 2:
            network.run(0.0 if turn % 3 else None)
    group.check(network, f"{policy}, {mode}")


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_restarts_and_spills_at_random_moments(seed: int, group_of: GroupOf, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for name in GROUPS:
        group = group_of(name)
        options = {
            "store": Folder(tmp_path / name, keep=True),
            "limits": Limits(memory=chance.choice([None, 1, 2000])),
        }
        network = group.network(any_policy(chance), chance.choice(MODES), **options)
        said = [f"seed {seed}", str(network.policy), network.mode]
        for stream, batch in group.pushes:
            if stream in network.streams:
                network.push(stream, batch)
            for _ in range(chance.randrange(4)):
                step = chance.randrange(5)
                if step == 0:
                    network.policy = any_policy(chance)
                    said.append(str(network.policy))
                elif step == 1:
                    network.mode = chance.choice(MODES)
                    said.append(network.mode)
                elif step == 2:
                    network.run(0.0)
                    said.append("run")
                elif step == 3:
                    grants = sum(network.step() for _ in range(chance.randrange(20)))
                    said.append(f"{grants} grants")
                else:
                    manifest = json.loads(json.dumps(network.snapshot()))
                    network.close()
                    network = group.network(any_policy(chance), chance.choice(MODES), **options)
                    network.restore(manifest)
                    said.append(f"restart {network.policy} {network.mode}")
        group.check(network, "; ".join(said))


@pytest.mark.parametrize("seed", SEEDS)
def test_policies_and_modes_change_while_rows_flow(seed: int, group_of: GroupOf) -> None:
    chance = random.Random(seed)
    for name in GROUPS:
        group = group_of(name)
        network = group.network(any_policy(chance), chance.choice(MODES))
        said: list[str] = [f"seed {seed}", str(network.policy), network.mode]
        with changing(network, random.Random(chance.random()), said):
            for stream, batch in group.pushes:
                if stream in network.streams:
                    network.push(stream, batch)
                network.run(chance.choice([0.0, 0.001, None]))
        group.check(network, "; ".join(said))


@contextmanager
def changing(network: Network, chance: random.Random, said: list[str]) -> Iterator[None]:
    """Another thread changes policy and mode all the time."""
    stop = threading.Event()
    broken: list[Exception] = []

    def change() -> None:
        try:
            while not stop.wait(chance.random() * 0.002):
                if chance.random() < 0.5:
                    network.mode = mode = chance.choice(MODES)
                    said.append(mode)
                else:
                    network.policy = text = any_policy(chance)
                    said.append(text)
        except Exception as error:
            broken.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not broken, f"{broken} after {said}"


def any_policy(chance: random.Random) -> str:
    return with_trains(chance.choice(POLICIES), chance.choice(TRAINS))
