"""From a script's graph to a simulation: topology, models with given costs, traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.graph.shared import SharedGraph
from headgate.scheduling import ModelError
from headgate.scheduling.graphs import topology_of
from headgate.scheduling.statistics import DEFAULTS
from headgate.simulation import AggregateModel, Constant, OperatorModel, Poisson, simulate
from headgate.simulation.trace import read_trace
from headgate.simulation.whatif import read_costs, row_bytes, scenario
from headgate.sql import Catalog

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM sensors (ts TIMESTAMP, place STRING, t INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
CREATE QUERY fire CLASS critical AS SELECT ts, place FROM sensors WHERE t > 35;
CREATE QUERY climate AS SELECT window(ts, '10 seconds', '5 seconds') AS w, place, avg(t) AS t
  FROM sensors GROUP BY window(ts, '10 seconds', '5 seconds'), place;
CREATE QUERY everything AS SELECT * FROM sensors;
"""


@pytest.fixture
def graph() -> SharedGraph:
    catalog = Catalog()
    catalog.execute(SCRIPT)
    graph = SharedGraph()
    for query in catalog.queries.values():
        graph.add(query)
    return graph


def test_models_have_given_costs_or_the_defaults_of_their_kind(graph: SharedGraph) -> None:
    topology, _ = topology_of(graph)
    select = next(name for name in topology.operators if name.startswith("select"))
    costs = read_costs({"operators": [{"name": select, "cost": 2e-6, "selectivity": 0.25, "rows_in": 7}]}, "costs")
    found = scenario(graph, {"sensors": Poisson(1000)}, costs)
    model = found.models[select]
    assert isinstance(model, OperatorModel)
    assert (model.cost, model.selectivity) == (2e-6, 0.25)
    window = next(model for model in found.models.values() if isinstance(model, AggregateModel))
    expected = window.expected([1000.0])
    # Results are emitted every five seconds, in the number given by the selectivity.
    assert window.window == 5.0
    assert expected.selectivity == pytest.approx(DEFAULTS["aggregate"].selectivity)


def test_predictions_follow_the_given_costs(graph: SharedGraph) -> None:
    costs = read_costs({"select": {"cost": 0.001, "selectivity": 0.5}}, "costs")
    found = scenario(graph, {"sensors": Constant(100, until=10.0)}, costs)
    result = simulate(found.topology, found.models, {"sensors": Constant(100, until=10.0)}, "fifo", bytes=found.bytes)
    select = next(name for name in found.topology.operators if name.startswith("select"))
    assert result.processed[select] == 1000
    assert result.latency("fire").count == 500
    assert result.latency("everything").count == 1000


def test_bytes_follow_the_schema(graph: SharedGraph) -> None:
    source = next(node for _, node in graph.sources())
    assert row_bytes(source.schema) == 8 + 24 + 4


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"select": {"cost": 0}}, "costs: 'select' has cost 0; give seconds per row above zero"),
        ({"select": {"cost": "x"}}, "costs: cost of 'select' is 'x'; give a number"),
        ({"select": {"cots": 1}}, "costs: 'select' has unknown figure 'cots'; did you mean 'cost'?"),
        ({"select": {"selectivity": -1}}, "costs: 'select' has selectivity -1; give zero or more"),
        ({"select": 3}, "costs: 'select' is not an object"),
        ([1], "costs: every entry of 'operators' must be an object with a 'name'"),
        ("x", "costs: not an object of figures"),
    ],
)
def test_wrong_costs_are_refused(found: object, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        read_costs(found, "costs")
    assert str(raised.value).startswith(message)


def test_names_that_nobody_knows_are_refused(graph: SharedGraph) -> None:
    costs = read_costs({"selct": {"cost": 1}}, "costs")
    with pytest.raises(ModelError, match="unknown operator or kind 'selct'; did you mean 'select'"):
        scenario(graph, {"sensors": Poisson(1)}, costs)
    with pytest.raises(ModelError, match="no query reads a stream 'sensor'; did you mean 'sensors'"):
        scenario(graph, {"sensor": Poisson(1)}, {})
    with pytest.raises(ModelError, match="stream 'sensors' has no rate"):
        scenario(graph, {}, {})


def test_a_trace_is_read_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time,stream\n2026-01-01T00:00:02Z,b\n2026-01-01T00:00:00Z,a\n2026-01-01T00:00:09Z,a\n")
    assert read_trace(path) == {"b": [2.0], "a": [0.0, 9.0]}
    assert read_trace(path, until=5) == {"b": [2.0], "a": [0.0]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "trace.csv:1: the header has no column 'stream'; the file is empty"),
        ("stream,tiem\na,1\n", "trace.csv:1: the header has no column 'time'; did you mean 'tiem'?"),
        ("stream,time\na,soon\n", "trace.csv:2: time 'soon' is neither seconds nor an ISO timestamp"),
        ("stream,time\n,1\n", "trace.csv:2: the row names no stream"),
        ("stream,time\na,nan\n", "trace.csv:2: time 'nan' is not finite"),
        ("stream,time\n", "trace.csv: the file has no rows"),
    ],
)
def test_a_wrong_trace_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ModelError) as raised:
        read_trace(path)
    assert str(raised.value).startswith(str(tmp_path / message))
