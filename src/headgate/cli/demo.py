"""`headgate demo`: 21 queries over a generated sensor network during a burst, under two policies."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headgate.feeder.forest import Forest

_REPORTS = 7
_CALM, _BURST = 0.35, 2.5
"""Load of the reports in cores, before and during the burst."""


def demo(
    seconds: Annotated[int, typer.Option("--seconds", min=20, help="Total duration of both policies.")] = 80,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser. Has no effect yet: the demo opens none.")
    ] = False,
) -> None:
    """Run 21 queries over a generated sensor network during a burst, first under round robin, then under CQC."""
    from rich.console import Console

    from headgate.feeder.forest import seconds_per_row
    from headgate.spark.session import local_session

    del no_browser
    console = Console()
    console.print("[bold]Headgate demo[/]: sensors in a forest, 21 queries in three classes, one Spark job")
    cost = seconds_per_row() * _REPORTS
    calm, peak = _CALM / cost, _BURST / cost
    console.print(
        f"Seven reports run a simulation of {cost / _REPORTS * 1e6:.0f} µs per reading: {calm:,.0f} readings per second"
        f" use {_CALM:.0%} of a core.\nDuring the burst, {peak:,.0f} readings per second would need {_BURST:.1f} cores;"
        " the network has one."
    )
    console.print("Starting Spark …")
    spark = local_session("headgate-demo")
    metrics: dict[str, dict[str, Any]] = {}
    try:
        for policy in ("rr", "cqc"):
            metrics[policy] = _phase(console, spark, policy, seconds / 2, calm, peak)
    finally:
        spark.stop()
    _compare(console, metrics)


def _phase(console: Any, spark: Any, policy: str, seconds: float, calm: float, peak: float) -> dict[str, Any]:
    """Runs the burst under one policy and returns the final metrics."""
    from rich.live import Live

    from headgate.cli import live_view
    from headgate.engine import Engine
    from headgate.feeder.folder import FolderFeeder
    from headgate.feeder.forest import Forest, burst

    folder = tempfile.mkdtemp(prefix="headgate-demo-")
    start, end = seconds * 0.25, seconds * 0.45
    forest = Forest(7)
    feeders = [
        FolderFeeder(f"{folder}/sensors", burst(calm, peak, start, end), forest.sensors, every=0.2),
        FolderFeeder(f"{folder}/weather", lambda t: 200.0, Forest(8).weather, every=0.2),
    ]
    console.rule(f"policy {policy}: {_NAMES[policy]}")
    engine = Engine(policy, spark=spark, budget=0.25)
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    try:
        engine.execute(files("headgate.cli").joinpath("demo.sql").read_text().format(folder=folder), file="demo.sql")
        _warm(forest, folder)
        engine.start()
        while not engine.metrics()["epochs"]:
            engine.wait(0.1)
        engine.forget_latency()
        for feeder in feeders:
            feeder.start()
        began = time.monotonic()
        poisoned = False
        printed = -1
        if live is not None:
            live.start()
        while (passed := time.monotonic() - began) < seconds:
            if not poisoned and passed > seconds * 0.5:
                # Halfway, a reading arrives on which the function of one query raises.
                poisoned = forest.poison = True
            engine.wait(0.5)
            now = "during the burst" if start <= passed < end else "calm" if passed < start else "after the burst"
            metrics = engine.metrics()
            if live is not None:
                live.update(live_view.screen({**metrics, "policy": f"{policy}, {now}"}, console.height), refresh=True)
            elif int(passed) // 5 != printed:
                printed = int(passed) // 5
                console.print(f"{passed:3.0f} s, {now}: {live_view.line(metrics)}")
    finally:
        if live is not None:
            live.stop()
        for feeder in feeders:
            feeder.stop()
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)
    metrics = engine.metrics()
    metrics["rows"] = sum(feeder.rows for feeder in feeders)
    return metrics


_NAMES = {"rr": "round robin, all queries equal", "cqc": "classes by priority, highest rate within a class"}


def _warm(forest: Forest, folder: str) -> None:
    """Writes a first file into each folder, so that start-up (code generation, the worker) is not measured."""
    import pyarrow.parquet as pq

    for name, rows in (("sensors", forest.sensors(50, 0.0)), ("weather", forest.weather(50, 0.0))):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        pq.write_table(rows, f"{folder}/{name}/warm.parquet")


def _compare(console: Any, metrics_by_policy: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    from headgate.cli.live_view import duration, size

    before, after = metrics_by_policy["rr"], metrics_by_policy["cqc"]
    table = Table(title="Measured latency, from arrival to the result at the sink", title_justify="left")
    table.add_column("class")
    for policy in ("round robin", "CQC"):
        table.add_column(f"{policy}\nmean", justify="right")
        table.add_column("\np99", justify="right")
    table.add_column("round robin\n÷ CQC (mean)", justify="right")
    order = sorted(before["classes"], key=lambda name: -before["classes"][name]["priority"])
    for name in order:
        was, now = before["classes"][name]["latency"], after["classes"][name]["latency"]
        ratio = was["mean"] / now["mean"] if now["mean"] else 0.0
        table.add_row(
            name,
            duration(was["mean"]),
            duration(was["p99"]),
            duration(now["mean"]),
            duration(now["p99"]),
            f"{ratio:.1f}×",
        )
    console.print(table)
    for policy, metrics in metrics_by_policy.items():
        failed = [name for name, query in metrics["queries"].items() if query["state"] == "failed"]
        memory = metrics.get("memory", {})
        console.print(
            f"{policy}: {metrics['rows']:,} readings, {metrics['epochs']:,} epochs, {metrics['waiting']:,} rows left in"
            f" queues, peak {size(memory.get('peak', 0))}; failed queries: {', '.join(failed) or 'none'}"
        )
    errors = [query["error"] for query in after["queries"].values() if query["error"]]
    if errors:
        console.print(f"The failure did not affect the other 20 queries: [red]{errors[0]}[/]")
    console.print("Next: write a script and run it with [bold]headgate run SCRIPT[/]; see README.md.")
