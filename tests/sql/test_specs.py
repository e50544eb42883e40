"""Specs and objectives: how they are written in SQL and Python, and how they are changed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headgate.graph.specs import Spec
from headgate.sql import SqlError
from tests.sql.scripts import declared


def test_a_spec_is_read_from_sql() -> None:
    catalog = declared()
    catalog.execute(
        "CREATE QUERY q WITH (latency = '1.5 s', tolerance = '10%', memory = '64 MB', accuracy = 0.95) "
        "AS SELECT location FROM sensors"
    )
    spec = catalog.queries["q"].spec
    assert spec == Spec(1_500_000, 0.1, 64 << 20, 0.95)
    assert spec.longest == pytest.approx(1.65)
    assert spec.largest == pytest.approx(1.1 * (64 << 20))


def test_altering_changes_what_is_named_and_nothing_else() -> None:
    catalog = declared()
    catalog.execute("CREATE QUERY q WITH (latency = '1 s', tolerance = '10%') AS SELECT location FROM sensors")
    before = catalog.queries["q"]
    catalog.execute("ALTER QUERY Q SET (latency = '200 ms', memory = '1 GB'); ALTER QUERY q SET CLASS critical")
    after = catalog.queries["q"]
    assert after.spec == Spec(200_000, 0.1, 1 << 30)
    assert after.cls.name == "critical"
    assert after.name == "q"
    assert after.plan is before.plan
    assert after.same_results(before)
    catalog.execute("ALTER QUERY q RESET (latency, memory)")
    assert catalog.queries["q"].spec == Spec(), "tolerance goes with what it belongs to"


def test_a_statement_that_is_refused_changes_nothing() -> None:
    catalog = declared()
    with pytest.raises(SqlError, match="unknown class"):
        catalog.execute("ALTER QUERY fire SET (latency = '1 s'); ALTER QUERY fire SET CLASS highest")
    assert catalog.queries["fire"].spec == Spec()


def test_specs_and_objectives_in_python() -> None:
    catalog = declared()
    catalog.query("q", "SELECT location FROM sensors", spec={"latency": timedelta(milliseconds=250), "accuracy": "90%"})
    assert catalog.queries["q"].spec == Spec(latency=250_000, accuracy=0.9)
    assert catalog.alter_query("q", "critical", {"accuracy": None}).spec == Spec(latency=250_000)
    catalog.set_objectives({"delay": 0.7, "output": 0.3})
    assert catalog.objectives == {"delay": 0.7, "output": 0.3}
    catalog.execute("SET OBJECTIVES (queue = '75%', freshness = '25%')")
    assert catalog.objectives == {"queue": 0.75, "freshness": 0.25}
    catalog.execute("SET OBJECTIVES ()")
    assert catalog.objectives == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"latency": 0.5}, "latency is 0.5, which has no unit; write for example '0.5 ms'"),
        ({"latency": timedelta(0)}, "latency is 0.000000 s; it must be greater than 0"),
        ({"accuracy": 95}, "accuracy is 95; write a share such as '10%' or 0.1"),
        ({"latencies": "1 s"}, "a query has no option latencies; did you mean latency?"),
        ({"latencies": None}, "a query has no option latencies; did you mean latency?"),
    ],
)
def test_wrong_specs_in_python(spec: dict[str, object], message: str) -> None:
    with pytest.raises(SqlError) as refusal:
        declared().alter_query("fire", spec=spec)
    assert str(refusal.value) == f"spec of fire:1:1: {message}"


def test_wrong_objectives_in_python() -> None:
    with pytest.raises(SqlError, match=r"add up to 1.1; they must add up to 1"):
        declared().set_objectives({"delay": 0.8, "output": 0.3})
