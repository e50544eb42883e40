"""Auctions over Kafka: the feeder writes three topics, the engine reads them and writes a fourth.

    python examples/auctions_kafka.py [SECONDS]

KAFKA=HOST:PORT names a broker; without it, the program starts one of its own (its jars are fetched by Maven once).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from pathlib import Path

import headgate as hg
from headgate.feeder import Feeder, FeedError, KafkaTarget, workload
from headgate.feeder.broker import Broker
from headgate.spark.packages import PackageError

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


def main() -> None:
    if "KAFKA" in os.environ:
        run(os.environ["KAFKA"])
        return
    with tempfile.TemporaryDirectory(prefix="auctions-") as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
        except (PackageError, OSError) as problem:
            sys.exit(f"no broker can be started: {problem}; KAFKA=HOST:PORT names one that runs")
        print(f"started a Kafka broker on {broker.servers}")
        try:
            run(broker.servers)
        finally:
            broker.stop()


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


def run(servers: str) -> None:
    prefix = f"example-{uuid.uuid4().hex[:6]}-"
    feeds = workload("auctions", rate=5000.0, seed=1)
    try:
        topics = KafkaTarget(servers, prefix, {"persons": "id", "auctions": "id", "bids": "auction"})
    except FeedError as problem:
        sys.exit(str(problem))
    # The topics must be there before the engine reads them.
    Feeder(topics, feeds, seed=1, seconds=1.0).run()
    engine = hg.Engine(policy="cqc")
    engine.execute("CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);")
    for feed in feeds:
        source = {
            "subscribe": prefix + feed.stream,
            "kafka.bootstrap.servers": servers,
            "value_format": "json",
            "startingOffsets": "earliest",
        }
        engine.execute(feed.declaration("kafka", source))
    engine.execute(f"""
        CREATE QUERY high_bids CLASS critical INTO kafka
        OPTIONS (topic '{prefix}high-bids', 'kafka.bootstrap.servers' '{servers}', value_format 'json') AS
        SELECT ts, auction, bidder, price FROM bids WHERE price > 900000;

        CREATE QUERY bids_on_new_auctions CLASS critical AS
        SELECT b.ts, a.id, a.item, b.price, a.reserve FROM auctions a JOIN bids b
        ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 SECONDS;

        CREATE QUERY hot_items CLASS report AS
        SELECT w, auction, bids FROM (
          SELECT w, auction, bids, row_number() OVER (PARTITION BY w ORDER BY bids DESC, auction) AS place FROM (
            SELECT window(ts, '2 seconds') AS w, auction, count(*) AS bids
            FROM bids GROUP BY window(ts, '2 seconds'), auction
          )
        ) WHERE place <= 3;
    """)
    feeder = Feeder(topics, feeds, seed=2, seconds=SECONDS)
    engine.start()
    try:
        feeder.start()
        while not feeder.wait(0.5):
            engine.wait(0)
        settle(engine)
    finally:
        feeder.stop()
        engine.stop()
    print(f"{feeder.progress().rows:,} rows sent to the topics {prefix}persons, {prefix}auctions, {prefix}bids")
    for name, query in engine.metrics()["queries"].items():
        print(f"{name}: {query['published']:,} rows, p50 {query['latency']['p50'] * 1000:.0f} ms")
    for row in engine.results("hot_items").slice(0, 3).to_pylist():
        print(f"  auction {row['auction']} got {row['bids']} bids within two seconds")


if __name__ == "__main__":
    main()
