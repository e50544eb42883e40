"""Fire detection: sensors in a forest, alerts that must come at once, a dashboard that may lag.

    python examples/fire_detection.py [SECONDS]

The feeder generates the sensors, with fires that develop, and sends them straight into the engine.
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa

import headgate as hg
from headgate.feeder import EngineTarget, Feeder, workload

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
known: set[str] = set()
ages: list[float] = []


def alert(rows: pa.Table) -> None:
    """Called with the alerts of each epoch: prints each burning place once."""
    now = time.time()
    for row in rows.to_pylist():
        ages.append(now - row["ts"].timestamp())
        if row["location"] not in known:
            known.add(row["location"])
            print(
                f"FIRE at {row['location']}: {row['temperature']} degrees, {ages[-1] * 1000:.0f} ms after the reading"
            )


def settle(engine: hg.Engine, limit: float = 60.0) -> None:
    """Waits until there are answers and no more come."""
    until = time.monotonic() + limit
    before = 0
    while time.monotonic() < until:
        engine.wait(2.0)
        answers = sum(query["published"] for query in engine.metrics()["queries"].values())
        if answers and answers == before:
            return
        before = answers


def main() -> None:
    feeds = workload("sensors", rate=2000.0, seed=5)
    engine = hg.Engine(policy="cqc")
    rows = EngineTarget(engine, feeds, delay="200 MILLISECONDS")
    engine.execute("CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);")
    engine.query(
        "fire",
        "SELECT ts, location, temperature FROM sensors WHERE temperature > 40 AND humidity < 30",
        cls="critical",
        sink=hg.callback(alert),
    )
    engine.query(
        "climate",
        """SELECT window(ts, '2 seconds') AS w, location, avg(temperature) AS temperature, avg(humidity) AS humidity
           FROM sensors GROUP BY window(ts, '2 seconds'), location""",
        cls="report",
    )
    engine.query(
        "wind_at_fires",
        """SELECT s.ts, s.location, s.temperature, w.wind FROM sensors s JOIN weather w
           ON s.location = w.location AND w.ts BETWEEN s.ts - INTERVAL 1 SECOND AND s.ts
           WHERE s.temperature > 40 AND w.wind > 12""",
        cls="critical",
    )
    feeder = Feeder(rows, feeds, seed=5, seconds=SECONDS)
    engine.start()
    try:
        feeder.start()
        while not feeder.wait(0.5):
            engine.wait(0)
        settle(engine)
    finally:
        feeder.stop()
        engine.stop()
        rows.remove()
    sent = feeder.progress()
    print(f"{sent.rows:,} rows sent, lag at most {sent.worst_lag * 1000:.0f} ms")
    if ages:
        print(f"{len(ages):,} alerts from {len(known)} places, mean age {sum(ages) / len(ages) * 1000:.0f} ms")
    for name in ("climate", "wind_at_fires"):
        print(f"{name} has {engine.results(name).num_rows} rows")


if __name__ == "__main__":
    main()
