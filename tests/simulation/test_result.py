"""The measurements of a run: percentiles, throughput by interval, queue series; and invalid arguments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling import SchedulingError, Topology
from headgate.simulation import (
    LatencyDistribution,
    OperatorModel,
    RecordedArrivals,
    SimulationResult,
    backlog,
    simulate,
)


def four_rows() -> SimulationResult:
    """Four queued rows of 1 s each: results at 1, 2, 3 and 4 s."""
    topology = Topology.of({"o": ["s"]}, queries={"q": ("o", "A")}, classes={"A": 1})
    return simulate(topology, {"o": OperatorModel(1.0)}, {"s": backlog(4)}, "fifo", resolution=0.5)


def test_latency_of_a_known_run() -> None:
    found = four_rows().latency("q")
    assert found.seconds.tolist() == [1, 2, 3, 4]
    assert (found.count, found.mean, found.max, found.total) == (4, 2.5, 4, 10)
    assert [found.percentile(p) for p in (0, 25, 26, 50, 99, 100)] == [1, 1, 2, 2, 4, 4]


def test_percentiles_count_fractions_of_tuples() -> None:
    found = LatencyDistribution(np.array([5.0, 1.0]), np.array([0.1, 0.9]))
    assert found.percentile(90) == 1.0
    assert found.percentile(91) == 5.0
    assert found.mean == pytest.approx(1.4)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_of_whole_tuples_are_those_of_numpy(seconds: list[float], percent: int) -> None:
    found = LatencyDistribution(np.array(seconds), np.ones(len(seconds)))
    assert found.percentile(percent) == np.percentile(seconds, percent, method="inverted_cdf")


def test_no_result_has_no_latency() -> None:
    found = LatencyDistribution(np.zeros(0), np.zeros(0))
    assert found.count == 0
    assert np.isnan([found.mean, found.max, found.percentile(50)]).all()


def test_throughput_by_interval() -> None:
    result = four_rows()
    # A result at the end of an interval belongs to it.
    assert result.throughput(1.0).tolist() == [1, 1, 1, 1]
    assert result.throughput(2.0, "q").tolist() == [2, 2]
    assert result.throughput(3.0, cls="A").tolist() == [3, 1]
    assert result.throughput(0.5).sum() == 4
    assert result.results()[1].tolist() == [1, 2, 3, 4]


def test_queues_over_time() -> None:
    result = four_rows()
    times, rows, size = result.queue_series()
    # A row is in memory until it is processed; a sample is the level from its time on.
    assert times.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]
    assert rows.tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0]
    assert (size == 100 * rows).all()
    assert (result.peak_rows, result.peak_bytes) == (4, 400)
    assert (result.row_seconds, result.mean_rows) == (10, 2.5)
    assert (result.byte_seconds, result.mean_bytes) == (1000, 250)


def test_idle_time_and_input_rate() -> None:
    topology = Topology.of({"o": ["s"]})
    result = simulate(topology, {"o": OperatorModel(1.0)}, {"s": RecordedArrivals((2.0, 6.0))}, "fifo")
    assert (result.end, result.busy, result.idle) == (7, 2, 5)
    assert result.input_rate("s", 2.0).tolist() == [0.5, 0, 0.5, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.latency("p"), "unknown query 'p'; known: q"),
        (lambda r: r.latency(cls="B"), "unknown class 'B'; known: A"),
        (lambda r: r.throughput(0.0), "an interval of 0.0 s is not above zero"),
        (lambda r: r.input_rate("t"), "unknown stream 't'; known: s"),
    ],
)
def test_invalid_arguments_are_refused(call: object, message: str) -> None:
    with pytest.raises(SchedulingError) as caught:
        call(four_rows())  # type: ignore[operator]
    assert str(caught.value) == message
