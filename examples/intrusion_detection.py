"""Intrusion detection with a join and a Python function: feeds examples/intrusion.sql and shows what it finds.

python examples/intrusion_detection.py [SECONDS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import headgate as hg
from headgate.feeder import Feeder, FolderTarget, workload

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
HERE = Path(__file__).resolve().parent


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
    script = (HERE / "intrusion.sql").read_text()
    # The script reads from in/ and writes to out/.
    os.chdir(tempfile.mkdtemp(prefix="intrusion-"))
    for stream in ("packets", "logins"):
        os.makedirs(f"in/{stream}")
    engine = hg.Engine(policy="cqc")
    engine.execute(script, file="intrusion.sql")
    feeder = Feeder(
        FolderTarget("in"), workload("packets", rate=5000.0, arrivals="bursty", seed=3), seed=3, seconds=SECONDS
    )
    engine.start()
    try:
        feeder.start()
        while not feeder.wait(0.5):
            engine.wait(0)
        settle(engine)
    finally:
        feeder.stop()
        engine.stop()
    print(f"{feeder.progress().rows:,} rows sent")
    for name in ("probes", "scans", "intrusions", "traffic"):
        print(f"{name}: {engine.metrics()['queries'][name]['published']:,} rows")
    for row in engine.results("scans").slice(0, 5).to_pylist():
        print(f"  {row['source']} probed {row['ports']} ports within two seconds")
    for row in engine.results("intrusions").slice(0, 5).to_pylist():
        print(f"  {row['address']} tried {row['account']} after it had probed {row['target']}, port {row['port']}")
    print(f"the results are in {os.getcwd()}/out")


if __name__ == "__main__":
    main()
