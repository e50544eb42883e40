"""Runs the oracle's cases on a cluster in a process of its own: a process has one Spark session.

Usage: oracle.py MASTER FOLDER REPLICAS EVERY. Every so many of the groups of cases; prints how many were run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headgate.spark.session import session
from tests.cluster.engine import SETTINGS
from tests.spark.test_oracle_on_spark import GROUPS, run_cases


def run(master: str, folder: str, replicas: int, every: int) -> None:
    spark = session("headgate-oracle", master, SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    chosen = list(GROUPS.items())[:: int(every)]
    for number, (_, cases) in enumerate(chosen):
        run_cases(spark, cases, Path(folder, str(number)), "cqc", replicas)
    spark.stop()
    print(len(chosen))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
