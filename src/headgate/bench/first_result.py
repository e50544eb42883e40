"""Seconds from `Engine.start` to the first result on a cluster: Spark's standalone master and two workers.

Each start is in a process of its own, with a session of its own. The script uses a function in a module beside it,
which must be shipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from headgate.bench.standalone import HOST, standalone
from headgate.connectors import callback
from headgate.engine import Engine
from headgate.outcome import Outcome, at_most

GOAL = 15.0
"""Seconds."""
LIMIT = 300.0
"""Seconds after which a start is given up."""
MODULE = "import pyarrow.compute as pc\n\n\ndef risk(v):\n    return pc.multiply(v, 2)\n"
SCRIPT = """
CREATE FUNCTION risk(v INT) RETURNS INT AS 'risk_functions:risk';
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{folder}/in');
"""
SELECT = "SELECT k, risk(v) AS r FROM s WHERE v > 1"


def run(rounds: int = 3, replicas: int = 2) -> Outcome:
    """Starts an engine several times; the slowest start counts."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder, "cluster")) as cluster:
        for number in range(rounds):
            root = Path(folder, str(number))
            (root / "in").mkdir(parents=True)
            (root / "risk_functions.py").write_text(MODULE)
            (root / "in" / "a.json").write_text("".join(json.dumps({"k": "a", "v": n}) + "\n" for n in range(10)))
            seconds.append(_started(cluster.master, root, replicas))
    return Outcome(
        "first-result",
        "goal: the first result within 15 s of the start on a cluster",
        "on a standalone cluster of two executors, an engine has its first result within 15 s of `start`",
        {"slowest_s": GOAL},
        {"slowest_s": max(seconds), **{f"start_{number}_s": each for number, each in enumerate(seconds)}},
        at_most,
        {
            "rounds": rounds,
            "replicas": replicas,
            "seconds": "from Engine.start, which starts Spark, to the first result",
        },
    )


def _started(master: str, root: Path, replicas: int) -> float:
    """The seconds of one start, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, master, str(root), str(replicas)],
        cwd=root,
        env={**os.environ, "SPARK_LOCAL_IP": HOST, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if done.returncode:
        raise RuntimeError(f"the engine did not start: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def _first_result(master: str, folder: str, replicas: int) -> float:
    engine = Engine("cqc", f"{folder}/checkpoint", master=master, replicas=replicas)
    engine.execute(SCRIPT.format(folder=folder))
    found = threading.Event()
    engine.query("risks", SELECT, sink=callback(lambda _: found.set()))
    began = time.perf_counter()
    engine.start()
    if not found.wait(LIMIT):
        raise RuntimeError(f"no result within {LIMIT:g} s") from engine.failure
    seconds = time.perf_counter() - began
    engine.stop()
    return seconds


if __name__ == "__main__":
    print(_first_result(sys.argv[1], sys.argv[2], int(sys.argv[3])))
