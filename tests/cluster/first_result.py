"""Runs `headgate run` on a cluster whose workers have no Headgate, and measures the time to the first result.

    python -m tests.cluster.first_result [TIMES]

Starts a master and two workers, and prints for each run the seconds from the start of the command until the first
result is in its folder. The script uses a function in a module beside it, which imports
another module.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tests.cluster.standalone import StandaloneCluster, standalone
from tests.cluster.workers_python import workers_python
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
SCRIPT = """
CREATE FUNCTION risk(v INT) RETURNS INT AS 'risk_functions:risk';
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{root}/in');
CREATE QUERY risks INTO parquet OPTIONS (path '{root}/out') AS SELECT k, risk(v) AS r FROM s WHERE v > 1;
"""
WANTED = [2 * n for n in range(2, 10)]


@dataclass(frozen=True)
class FirstResult:
    """How a run went: its output and exit code, the rows that it wrote, and seconds to the first result."""

    output: str
    code: int
    rows: list[int]
    seconds: float


def prepare(root: Path) -> None:
    """Writes the script, its modules and its rows."""
    script = root / "script"
    script.mkdir(parents=True)
    (script / "doubling.py").write_text(
        "import pyarrow.compute as pc\n\n\ndef double(v):\n    return pc.multiply(v, 2)\n"
    )
    (script / "risk_functions.py").write_text("from doubling import double\n\n\ndef risk(v):\n    return double(v)\n")
    (script / "risks.sql").write_text(SCRIPT.format(root=root))
    (root / "in").mkdir()
    (root / "in" / "a.json").write_text("".join(json.dumps({"k": "a", "v": n}) + "\n" for n in range(10)))


def run(cluster: StandaloneCluster, root: Path, python: str) -> FirstResult:
    """Runs the script until its first result, or until it ends by itself."""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": python}
    command = [sys.executable, "-m", "headgate.cli.main", "run", str(root / "script" / "risks.sql"), "--quiet"]
    command += ["--master", cluster.master, "--checkpoint", str(root / "checkpoint")]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while process.poll() is None and not list((root / "out").glob("*.parquet")):
            assert time.monotonic() - began < LIMIT
            time.sleep(0.02)
        seconds = time.monotonic() - began
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    finally:
        process.kill()
    rows = [r for file in (root / "out").glob("*.parquet") for r in pq.read_table(file)["r"].to_pylist()]
    return FirstResult(output, process.returncode, sorted(rows), seconds)


def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder, "cluster")) as cluster:
        python = workers_python(Path(folder, "python"))
        for number in range(times):
            root = Path(folder, str(number))
            prepare(root)
            found = run(cluster, root, python)
            assert found.rows == WANTED, found.output
            print(json.dumps({"run": number, "seconds": round(found.seconds, 2)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
