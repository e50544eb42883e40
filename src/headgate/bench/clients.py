"""100 clients that follow results while 21 queries run: their lag, and their effect on class critical."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import cycle, islice
from typing import Any

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import Latencies, running
from headgate.bench.workload import declare, workload_21
from headgate.engine import Engine
from headgate.outcome import Outcome, at_most
from headgate.server.access import Access
from headgate.server.allowed import StatementPermissions
from headgate.server.app import application
from headgate.server.service import Service
from headgate.server.serving import PageServer
from headgate.spark.session import local_session

CLIENTS = 100
RATE = 1500.0
WARM, MEASURED, PHASES = 20.0, 20.0, 3
LONGEST_LAG, LARGEST_CHANGE = 1.0, 0.10


def run() -> Outcome:
    """Alternates phases without and with clients in one run; the clients run in a separate process."""
    work = workload_21()
    latencies = Latencies()
    spark = local_session("headgate-bench-clients")
    try:
        feed = FeedProcess(work.streams, RATE)
        engine = Engine("cqc", spark=spark)
        declare(engine, work, feed.folder, latencies)
        service = Service(engine, StatementPermissions())
        http = PageServer(application(service, Access("127.0.0.1")), "127.0.0.1", 0)
        critical = work.members("critical")
        queries = list(islice(cycle(engine.queries), CLIENTS))
        alone: list[float] = []
        beside: list[float] = []
        followed: list[dict[str, Any]] = []
        with running(engine, feed):
            http.start()
            service.attach()
            engine.wait(WARM)
            for _ in range(PHASES):
                alone.append(_mean(engine, latencies, critical))
                clients = _started(http.url, queries)
                beside.append(_mean(engine, latencies, critical))
                followed.append(json.loads(clients.communicate()[0]))
            http.stop()
            service.stop()
    finally:
        spark.stop()
    change = sum(beside) / sum(alone) - 1
    measured = {
        "lag_at_most_s": max(each["most_s"] if each["most_s"] is not None else float("inf") for each in followed),
        "critical_change": abs(change),
        "clients_without_results": max(each["clients"] - each["served"] for each in followed),
        "signed_change": change,
        "lag_p99_s": max(each["p99_s"] or 0.0 for each in followed),
        "events": sum(each["events"] for each in followed),
        "missed": sum(each["missed"] for each in followed),
        "critical_alone_s": alone,
        "critical_beside_s": beside,
    }
    return Outcome(
        "clients",
        "the same engine without clients, in the same run",
        "100 clients are less than 1 s behind, and the latency of class critical changes by less than 10%",
        {"lag_at_most_s": LONGEST_LAG, "critical_change": LARGEST_CHANGE, "clients_without_results": 0},
        measured,
        at_most,
        {"clients": CLIENTS, "rate": RATE, "warm_s": WARM, "phase_s": MEASURED, "phases": PHASES, "policy": "cqc"},
    )


def _mean(engine: Engine, latencies: Latencies, queries: list[str]) -> float:
    """The mean latency of these queries over a phase; infinite if there are no results."""
    latencies.since = min(latencies.since, time.time())
    before, _, known = latencies.of(queries)
    engine.wait(MEASURED)
    after, _, count = latencies.of(queries)
    if count == known:
        return float("inf")
    return (after * count - (before * known if known else 0.0)) / (count - known)


def _started(url: str, queries: list[str]) -> subprocess.Popen[str]:
    """Clients that follow for a phase."""
    arguments = [sys.executable, "-m", "headgate.bench.following", url, str(MEASURED), *queries]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
