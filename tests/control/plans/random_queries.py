"""Random queries over one stream and two static tables, their rows, and what a network answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.settings import Settings
from headgate.runtime import Network
from headgate.sql import Catalog

HERE = "tests.control.plans.random_queries"
SETUP = f"""
CREATE STREAM s (ts TIMESTAMP, k STRING, a INT, b INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
  USING json OPTIONS (path 'unused');
CREATE TABLE t (k STRING, region STRING, h INT) USING json OPTIONS (path 'unused');
CREATE TABLE u (a INT, name STRING, level INT) USING json OPTIONS (path 'unused');
CREATE FUNCTION odd(a INT) RETURNS INT AS '{HERE}:odd';
CREATE FUNCTION low(b INT) RETURNS INT AS '{HERE}:low';
"""
KEYS = ("x", "y", "z", None)


def odd(a: pa.Array) -> pa.Array:
    return pc.bit_wise_and(a, 1)


def low(b: pa.Array) -> pa.Array:
    return pc.bit_wise_and(b, 3)


def compiled(*selects: str) -> list[Query]:
    """The queries q0, q1 …"""
    catalog = Catalog(time_zone="UTC")
    catalog.execute(SETUP)
    return [catalog.query(f"q{number}", select) for number, select in enumerate(selects)]


def random_select(random: Random) -> str:
    """A query with at least one static table or one Python predicate."""
    tables = random.choice([("t",), ("u",), ("t", "u"), ("u", "t"), ("t", "u")])
    kinds = {
        table: random.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]) for table in tables
    }
    on = {"t": "s.k = t.k", "u": "s.a = u.a"}
    if random.random() < 0.4:
        on["t"] += random.choice([" AND s.b > t.h", " AND t.h > 2", " AND s.a = t.h"])
    if random.random() < 0.3:
        on["u"] += " AND u.level > 1"
    joins = " ".join(f"{kinds[table]} {table} ON {on[table]}" for table in tables)
    there = {table for table in tables if kinds[table] in ("JOIN", "LEFT JOIN")}
    where = " AND ".join(
        random.sample(["s.a > 1", "odd(s.a) = 1", "low(s.b) < 2", "s.k IS NOT NULL"], random.randint(0, 3))
    )
    where = f" WHERE {where}" if where else ""
    columns = ["s.k", "s.a", "s.b", *(["t.region"] if "t" in there else []), *(["u.name"] if "u" in there else [])]
    if random.random() < 0.35:
        chosen = random.sample(columns, random.randint(1, len(columns)))
        return f"SELECT s.ts, {', '.join(chosen)} FROM s {joins}{where}"
    keys = random.sample(columns, random.randint(0, 2))
    window = random.choice(["window(s.ts, '2 seconds')", "window(s.ts, '4 seconds', '2 seconds')"])
    calls = random.sample(
        ["count(*) AS n", "sum(s.a) AS total", "avg(s.b) AS mean", "max(s.b) AS most", "count(DISTINCT s.a) AS kinds"],
        random.randint(1, 3),
    )
    having = random.choice(["", "", " HAVING count(*) > 1"])
    groups = ", ".join([window, *keys])
    return f"SELECT {window} AS w, {', '.join([*keys, *calls])} FROM s {joins}{where} GROUP BY {groups}{having}"


def tables() -> dict[str, pa.Table]:
    """The rows of the static tables: keys without a partner, with one, and with several."""
    return {
        "t": pa.table(
            {
                "k": pa.array(["x", "y", "y", None, "w"]),
                "region": pa.array(["north", "south", "north", "none", "west"]),
                "h": pa.array([3, 1, 5, 2, None], pa.int32()),
            }
        ),
        "u": pa.table(
            {
                "a": pa.array([1, 2, 2, 3, 6, None], pa.int32()),
                "name": pa.array(["one", "two", "zwei", None, "six", "none"]),
                "level": pa.array([1, 2, 3, 2, 0, 5], pa.int32()),
            }
        ),
    }


def random_rows(random: Random, batches: int = 6) -> list[pa.RecordBatch]:
    """Batches of rows whose event times rise, some out of order and some late."""
    found = []
    for number in range(batches):
        count = random.randint(1, 40)
        seconds = [number * 2 + random.uniform(-3, 2) for _ in range(count)]
        found.append(
            pa.record_batch(
                {
                    "ts": pa.array([int(1e6 * (100 + second)) for second in seconds], pa.timestamp("us", "UTC")),
                    "k": pa.array([random.choice(KEYS) for _ in range(count)], pa.string()),
                    "a": pa.array([random.choice([*range(8), None]) for _ in range(count)], pa.int32()),
                    "b": pa.array([random.randrange(8) for _ in range(count)], pa.int32()),
                }
            )
        )
    return found


def network(*queries: Query) -> Network:
    graph = SharedGraph()
    for query in queries:
        graph.add(query)
    return Network(graph, "fifo", Settings(tables=tables()))


def answered(running: Network, query: str) -> Counter[tuple[Any, ...]]:
    """The results of a query, as a multiset."""
    rows = (row for result in running.take(query) for row in result.rows.to_pylist())
    return Counter(tuple(str(value) for value in row.values()) for row in rows)


def results(query: Query, rows: Sequence[pa.RecordBatch], *beside: Query) -> Counter[tuple[Any, ...]]:
    """What a query answers in a network of its own, or beside others."""
    running = network(*beside, query)
    for batch in rows:
        running.push("s", batch)
        running.run()
    running.finish()
    running.run()
    return answered(running, query.name)


def kinds(plan: Operator) -> list[str]:
    """The kinds of the operators of a plan, inputs first."""
    return [node.kind for node in plan.walk()]
