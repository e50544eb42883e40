"""Simulations that begin with waiting rows, and rows of which only a part enters."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import Constant, OperatorModel, Simulation

FORK = Topology.of({"a": ["s"], "b": ["s"]}, queries={"p": "a", "q": "b"})
CHAIN = Topology.of({"a": ["s"], "b": ["a"]}, queries={"p": "b"})


def test_rows_that_wait_have_their_age_and_are_processed_first() -> None:
    models = {"a": OperatorModel(0.1), "b": OperatorModel(0.1)}
    simulation = Simulation(CHAIN, models, {"s": Constant(1.0, rows=3)}, "fifo", until=20.0)
    simulation.preload("b", rows=4, oldest=8.0, tuples=4)
    assert simulation.view.queues.memory == pytest.approx(400)
    result = simulation.run()
    output = simulation.outputs("p")
    assert len(output.time) == 7
    assert output.latency[0] == pytest.approx(8.1)
    assert output.latency[3] == pytest.approx(2.4)
    assert result.processed == {"a": 3, "b": 7}
    assert result.unprocessed == {}


def test_rows_wait_where_the_unit_takes_its_rows() -> None:
    """Chain joins both operators, so rows cannot wait between them."""
    models = {"a": OperatorModel(0.1), "b": OperatorModel(0.1)}
    simulation = Simulation(CHAIN, models, {"s": Constant(1.0, rows=0)}, "chain", until=20.0)
    assert [len(unit.operators) for unit in simulation.scheduler.units.units] == [2]
    simulation.preload("b", rows=2, oldest=1.0, tuples=2)
    assert simulation.run().processed == {"a": 2, "b": 2}


def test_a_part_of_the_rows_enters() -> None:
    models = {"a": OperatorModel(0.001), "b": OperatorModel(0.001)}
    simulation = Simulation(
        FORK,
        models,
        {"s": Constant(10.0, rows=100)},
        "fifo",
        tuples="fractional",
        admitted=lambda operator: (0.25, 1.0)[operator],
    )
    result = simulation.run()
    assert result.processed["a"] == pytest.approx(25)
    assert result.processed["b"] == pytest.approx(100)
    assert sum(simulation.outputs("p").rows) == pytest.approx(25)
