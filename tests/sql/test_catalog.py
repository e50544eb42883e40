"""The catalog: scripts take effect as a whole or not at all, and declarations from Python."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors
from headgate.graph import types as t
from headgate.graph.queries import Sink, Stream, Table
from headgate.graph.specs import Spec
from headgate.graph.types import Schema
from headgate.sql import Catalog, Result, SqlError
from tests.sql.scripts import declared

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);

CREATE STREAM sensors (
  ts TIMESTAMP, location STRING, temperature INT, humidity INT,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
) USING kafka OPTIONS (subscribe 'sensors', 'kafka.bootstrap.servers' 'localhost:9092', value_format 'json');

CREATE QUERY fire CLASS critical INTO kafka OPTIONS (topic 'alerts', kafka.bootstrap.servers 'localhost:9092')
WITH (latency = '500 ms', tolerance = '10%') AS
SELECT ts, location, temperature FROM sensors WHERE temperature > 35 AND humidity < 20;

CREATE QUERY climate INTO parquet OPTIONS (path 'out/climate') INTO console AS
SELECT window(ts, '10 seconds', '5 seconds') AS w, location, avg(temperature) AS t
FROM sensors GROUP BY window(ts, '10 seconds', '5 seconds'), location;
"""


def test_the_statements() -> None:
    catalog = Catalog()
    assert catalog.execute(SCRIPT) == [
        Result("created", "class", "critical"),
        Result("created", "stream", "sensors"),
        Result("created", "query", "fire"),
        Result("created", "query", "climate"),
    ]
    sensors = catalog.streams["sensors"]
    assert (sensors.time, sensors.delay, sensors.source) == (0, 5_000_000, "kafka")
    assert sensors.options["kafka.bootstrap.servers"] == "localhost:9092"
    fire = catalog.queries["fire"]
    assert (fire.cls.name, fire.cls.priority) == ("critical", 6)
    assert fire.spec == Spec(latency=500_000, tolerance=0.1)
    assert fire.sinks == (Sink("kafka", {"topic": "alerts", "kafka.bootstrap.servers": "localhost:9092"}),)
    assert fire.sql == "SELECT ts, location, temperature FROM sensors WHERE temperature > 35 AND humidity < 20"
    climate = catalog.queries["climate"]
    assert climate.cls.name == "normal"
    assert [sink.format for sink in climate.sinks] == ["parquet", "console"]
    assert climate.schema.names == ("w", "location", "t")


def test_names_are_found_without_regard_to_case() -> None:
    catalog = declared()
    assert catalog.queries["FIRE"] is catalog.queries["fire"]
    assert catalog.query("loud", "SELECT Temperature FROM SENSORS").schema.names == ("Temperature",)


def test_a_wrong_script_changes_nothing() -> None:
    catalog = declared()
    before = list(catalog.queries)
    with pytest.raises(SqlError):
        catalog.execute(
            "CREATE QUERY good AS SELECT * FROM sensors; DROP QUERY fire; CREATE QUERY bad AS SELECT x FROM y"
        )
    assert list(catalog.queries) == before


def test_the_first_problem_is_told() -> None:
    catalog = declared()
    with pytest.raises(SqlError) as refusal:
        catalog.execute("CREATE QUERY a AS SELECT nosuch FROM sensors;\nCREATE QUERY b AS SELECT (;", "two.sql")
    assert (refusal.value.file, refusal.value.line, refusal.value.column) == ("two.sql", 1, 26)


def test_dropped_queries_are_gone_and_their_names_free() -> None:
    catalog = declared()
    results = catalog.execute("DROP QUERY fire; DROP QUERY IF EXISTS fire; CREATE QUERY fire AS SELECT ts FROM sensors")
    assert [r.done for r in results] == ["dropped", "dropped", "created"]
    assert catalog.queries["fire"].schema.names == ("ts",)


def test_the_class_of_those_without_one_may_be_declared() -> None:
    catalog = declared()
    catalog.execute("CREATE CLASS normal WITH (priority = 3)")
    assert catalog.query("q", "SELECT ts FROM sensors").cls.priority == 3


def test_every_type() -> None:
    catalog = Catalog()
    catalog.execute(
        "CREATE STREAM s (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY,"
        " j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(10, 2), n DECIMAL, o ARRAY<INT>, p MAP<STRING, BIGINT>,"
        " q STRUCT<x: INT, y: ARRAY<STRUCT<z: DATE>>>, r VARCHAR(10), `s t` LONG NOT NULL, u TIMESTAMP_LTZ) USING rate"
    )
    assert catalog.streams["s"].schema.types == (
        *(t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.STRING, t.BINARY, t.DATE),
        *(t.TIMESTAMP, t.TIMESTAMP_NTZ, pa.decimal128(10, 2), pa.decimal128(10, 0), pa.list_(t.INT)),
        pa.map_(t.STRING, t.BIGINT),
        pa.struct([("x", t.INT), ("y", pa.list_(pa.struct([("z", t.DATE)])))]),
        *(t.STRING, t.BIGINT, t.TIMESTAMP),
    )
    assert not catalog.streams["s"].schema[18].nullable
    assert catalog.query("q", "SELECT `s t` FROM s").schema.names == ("s t",)


def test_streams_and_tables_from_python() -> None:
    catalog = Catalog(connectors=connectors())
    catalog.add_stream(Stream("trades", Schema.of(("ts", t.TIMESTAMP), ("price", t.DOUBLE)), time=0, delay=1))
    catalog.add_table(Table("names", Schema.of(("price", t.DOUBLE), ("name", t.STRING)), "parquet"))
    query = catalog.query(
        "q", "SELECT name, trades.price FROM trades JOIN names USING (price)", sinks=[Sink("console")]
    )
    assert query.schema.names == ("name", "price")
    with pytest.raises(SqlError, match="Trades is a stream already"):
        catalog.add_stream(Stream("Trades", Schema.of(("a", t.INT))))
    with pytest.raises(SqlError, match=r"^q2:1:8: unknown column prise; did you mean price\?$"):
        catalog.query("q2", "SELECT prise FROM trades")
    with pytest.raises(SqlError, match="q:1:1: q is a query already"):
        catalog.query("q", "SELECT price FROM trades")
    with pytest.raises(SqlError, match="parquet cannot replace rows"):
        catalog.query("q3", "SELECT count(*) FROM trades", sinks=[Sink("parquet", {"path": "out"})])
    catalog.drop_query("q")
    assert "q" not in catalog.queries


def test_the_time_zone_is_that_of_the_session() -> None:
    catalog = declared()
    catalog.execute("SET TIME ZONE 'Europe/Berlin'")
    text = catalog.query("q", "SELECT ts FROM sensors WHERE ts > TIMESTAMP '2024-07-01 12:00:00'").plan.text
    assert "2024, 7, 1, 10, 0" in text
    assert "Europe/Berlin" in catalog.query("r", "SELECT hour(ts) AS h FROM sensors").plan.text
    assert catalog.time_zone == "Europe/Berlin"


def test_python_functions_take_what_they_declare() -> None:
    query = declared().query("q", "SELECT risk(temperature, 2) AS r FROM sensors")
    assert query.plan.text.startswith("project python[math:pow](cast(#2):double, 2.0:double):double")


def test_a_python_function_carries_its_timeout_to_the_operators_that_call_it() -> None:
    catalog = declared()
    catalog.execute("CREATE FUNCTION slow(a INT) RETURNS INT AS 'math:ceil' WITH (timeout = '1 minute 30 seconds')")
    catalog.execute("CREATE FUNCTION quick(a INT) RETURNS INT AS 'math:floor' WITH (timeout = 500ms)")
    selects = {
        "SELECT ts FROM sensors WHERE temperature > 3": None,
        "SELECT depth(humidity) AS d FROM sensors": 30.0,
        "SELECT 1 + slow(2 + 3) AS d FROM sensors": 90.0,
        "SELECT CASE WHEN 5 < slow(humidity) THEN quick(temperature) END AS d FROM sensors": 0.5,
        "SELECT ts FROM (SELECT ts, slow(temperature) + 1 AS t FROM sensors) WHERE NOT 7 >= t": 90.0,
        "SELECT window(ts, '1 minute') AS w, max(slow(humidity)) FILTER (WHERE depth(temperature) > 1) AS m"
        " FROM sensors GROUP BY window(ts, '1 minute')": 30.0,
        "SELECT s.ts FROM sensors s JOIN places p ON s.location = p.location AND quick(s.humidity) < p.size": 0.5,
    }
    for number, (select, limit) in enumerate(selects.items()):
        limits = [node.time_limit for node in catalog.query(f"q{number}", select).plan.walk()]
        assert min((each for each in limits if each is not None), default=None) == limit, select


def test_a_changed_timeout_changes_no_plan() -> None:
    """So operators find their state again after a restart."""
    plans = []
    for timeout in ("", " WITH (timeout = '5 seconds')", " WITH (timeout = '6 seconds')"):
        catalog = declared()
        catalog.execute(f"CREATE FUNCTION up(a INT) RETURNS INT AS 'math:ceil'{timeout}")
        plans.append(catalog.query("q", "SELECT up(humidity) AS u FROM sensors").plan)
    assert plans[0].text == plans[1].text == plans[2].text
    assert [plan.time_limit for plan in plans] == [30.0, 5.0, 6.0]


def test_positions_count_characters_and_lines() -> None:
    catalog = declared()
    script = (
        "-- ünïcode 'and a quote\n/* two;\nlines */ CREATE QUERY q AS\n"
        "  SELECT 'a;\nb', \"--\", ts,\n\ttemprature FROM sensors"
    )
    with pytest.raises(SqlError) as refusal:
        catalog.execute(script, "p.sql")
    assert str(refusal.value) == "p.sql:6:2: unknown column temprature; did you mean temperature?"


def test_a_statement_that_is_nested_too_deeply_is_refused_where_it_begins() -> None:
    many = " OR ".join(f"temperature = {n}" for n in range(2000))
    script = f"CREATE CLASS a WITH (priority = 2);\nCREATE QUERY q AS SELECT ts FROM sensors WHERE {many}"
    with pytest.raises(SqlError) as refusal:
        declared().execute(script)
    assert (refusal.value.line, refusal.value.column) == (2, 1)
    assert "instead of many ORs" in refusal.value.message
