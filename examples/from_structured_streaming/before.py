"""Before: three continuous queries as three streaming queries of plain Structured Streaming. See after.py.

python examples/from_structured_streaming/before.py [SECONDS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import SparkSession

from headgate.feeder import Feeder, FolderTarget, workload

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
ages: dict[str, list[float]] = {}

QUERIES = {
    "fire": "SELECT ts, location, temperature FROM sensors WHERE temperature > 40 AND humidity < 30",
    "smoke": "SELECT ts, location, smoke FROM sensors WHERE smoke > 0.7",
    "climate": """SELECT window(ts, '2 seconds') AS w, location, avg(temperature) AS t, max(ts) AS ts
                  FROM sensors GROUP BY window(ts, '2 seconds'), location""",
}


def sink(name: str) -> Any:
    def take(frame: Any, batch: int) -> None:
        rows = frame.toArrow()
        ages.setdefault(name, []).extend(time.time() - ts.timestamp() for ts in rows["ts"].to_pylist())

    return take


def main() -> None:
    folder = tempfile.mkdtemp(prefix="before-")
    os.makedirs(f"{folder}/sensors")
    builder = SparkSession.builder.master("local[*]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    schema = "ts TIMESTAMP, location STRING, temperature INT, humidity INT, smoke DOUBLE"
    sensors = spark.readStream.schema(schema).parquet(f"{folder}/sensors")
    sensors.withWatermark("ts", "200 milliseconds").createOrReplaceTempView("sensors")
    running = [
        spark.sql(select)
        .writeStream.option("checkpointLocation", f"{folder}/state/{name}")
        .foreachBatch(sink(name))
        .start()
        for name, select in QUERIES.items()
    ]
    Feeder(FolderTarget(folder), workload("sensors", rate=2000.0, seed=5), seed=5, seconds=SECONDS).run()
    for query in running:
        query.processAllAvailable()
        query.stop()
    spark.stop()
    for name in QUERIES:
        values = ages.get(name, [])
        print(f"{name}: {len(values):,} answers, mean age {sum(values) / max(len(values), 1):.2f} s")


if __name__ == "__main__":
    main()
