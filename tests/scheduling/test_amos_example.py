"""002 §2.2: the running example, cell by cell (Tables 1 and 2), and equations 1 and 2."""

from __future__ import annotations

from math import isclose

import pytest

from headgate.scheduling import PolicyError, Topology
from headgate.scheduling.amos import ObjectiveWeights, Scores
from headgate.simulation import OperatorModel, RecordedArrivals, Simulation

# Time: queue sizes of Op1, Op2, Op3, and the throughput so far. The stored text garbles some cells: of FIFO the
# rows at 1, 3 and 3.5, of MTIQ those at 1, 2.5, 3 and 3.5; these follow from §2.2 and the rows around them.
FIFO = {
    1: (2, 0, 0, 0),
    1.5: (1, 0.25, 0, 0),
    1.75: (1, 0, 0.125, 0),
    2: (3, 0, 0, 0.1),
    2.5: (2, 0.25, 0, 0.1),
    3: (4, 0, 0, 0.2),
    3.5: (3, 0.25, 0, 0.2),
    4: (3, 0, 0, 0.3),
}
MTIQ = {
    1: (2, 0, 0, 0),
    1.5: (1, 0.25, 0, 0),
    2: (2, 0.5, 0, 0),
    2.5: (1, 0.75, 0, 0),
    3: (2, 1, 0, 0),
    3.5: (1, 1.25, 0, 0),
    4: (1, 1, 0.125, 0),
}


@pytest.mark.parametrize(("policy", "table"), [("fifo:rows=1", FIFO), ("mtiq:rows=1", MTIQ)])
def test_the_tables(policy: str, table: dict[float, tuple[float, float, float, float]]) -> None:
    topology = Topology.of({"op1": ["s"], "op2": ["op1"], "op3": ["op2"]})
    models = {"op1": OperatorModel(0.5, 0.25), "op2": OperatorModel(1, 0.5), "op3": OperatorModel(2, 0.8)}
    moves: list[tuple[float, int, float]] = []

    def see(event: str, edge: int, row: tuple[float, float, float, object], time: float) -> None:
        moves.append((time, edge, row[1] if event == "in" else -row[1]))

    simulation = Simulation(
        topology,
        models,
        {"s": RecordedArrivals((1, 1, 2, 2, 3, 3))},
        policy,
        tuples="fractional",
        observer=see,
    )
    times, delivered = simulation.run().results()
    for moment, (*queues, throughput) in table.items():
        sizes = [sum(rows for t, edge, rows in moves if edge == e and t <= moment) for e in range(3)]
        assert sizes == queues, f"at {moment}"
        out = max((d for t, d in zip(times, delivered, strict=True) if t <= moment), default=0.0)
        assert isclose(out, throughput), f"at {moment}"


def test_scores_by_equations_1_and_2() -> None:
    scores = Scores(decay=0.25)
    spec = ObjectiveWeights.of({"queue": 75, "delay": 25})
    assert scores.score("a", spec) is None
    scores.update("a", {"queue": 10.0, "delay": 1.0})
    assert scores.score("a", spec) == 1.0  # no history to differ from yet
    scores.update("b", {"queue": 30.0, "delay": 2.0})
    # History of queue: mean 20, from 10 to 30; b is (30 − 20)/20 = 0.5 worse; of delay (2 − 1.5)/1 = 0.5 worse.
    assert scores.score("b", spec) == pytest.approx(1 - 0.75 * 0.5 - 0.25 * 0.5)
    scores.update("b", {"queue": 20.0, "delay": 1.5})
    # Queue: mean 20, so z = 0·0.75 + 0.5·0.25; delay: mean 1.5, the same.
    assert scores.score("b", spec) == pytest.approx(1 - 0.125)
    assert scores.score("b", ObjectiveWeights.of({"delay": 1})) == pytest.approx(1 - 0.125)


def test_a_spec_with_an_unknown_objective_is_refused() -> None:
    with pytest.raises(PolicyError, match="unknown objective 'dealy' in the spec; did you mean 'delay'"):
        ObjectiveWeights.of({"dealy": 1.0})
