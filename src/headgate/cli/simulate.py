"""`headgate simulate`: runs a script's queries in virtual time, at given rates, under several policies."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import output
from headgate.cli.failures import InputError, reason
from headgate.cli.output import check_writable, figure, write_json
from headgate.cli.script import load

if TYPE_CHECKING:
    from rich.table import Table

    from headgate.simulation import Arrivals, SimulationResult
    from headgate.simulation.whatif import Scenario

# Default limit on the number of rows: about ten seconds of simulation per policy.
MANY_ROWS = 200_000
SECONDS = 10.0
SWITCH = 50e-6
POLICIES = "cqc,hr,fifo,rr"


def simulate(
    script: Annotated[Path, typer.Argument(help="A file with SQL statements.", metavar="SCRIPT")],
    rates: Annotated[
        str, typer.Option("--rates", help="Rows per second of each stream.", metavar="STREAM=RATE,…")
    ] = "",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="Recorded arrivals: a CSV file with columns stream and time (s).", metavar="FILE"),
    ] = None,
    policies: Annotated[str, typer.Option("--policies", help="Policies to compare.", metavar="POLICY,…")] = POLICIES,
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs",
            help="Cost (s) and selectivity by operator or kind, as JSON, or the output of Engine.metrics(); "
            "default: the defaults of each kind.",
            metavar="FILE",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="How long rows arrive; default: 10, less at high rates.")
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Number of units that run in parallel.")] = 1,
    switch: Annotated[float, typer.Option("--switch", min=0.0, help="Overhead of a grant in seconds.")] = SWITCH,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers.")] = 1,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Plot latency and memory into a file.", metavar="FILE.png")
    ] = None,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the predictions to a file.", metavar="FILE")
    ] = None,
) -> None:
    """Predict latency by class, memory and throughput of a script's queries under several policies."""
    from headgate import simulation
    from headgate.scheduling import policy
    from headgate.simulation.whatif import read_costs, scenario

    chosen = split_policies(policies)
    for text in chosen:
        policy(text)
    check_writable(plot)
    check_writable(json_)
    figures = read_costs(_json(costs), str(costs)) if costs is not None else {}
    arrivals, flow = _arrivals(rates, trace, seconds)
    modelled = scenario(_graph(script), arrivals, figures)
    results: dict[str, SimulationResult] = {}
    for text in chosen:
        results[text] = simulation.simulate(
            modelled.topology,
            modelled.models,
            arrivals,
            text,
            processors=threads,
            switch=switch,
            bytes=modelled.bytes,
            resolution=max(flow / 200, 1e-6),
            seed=seed,
        )
    _show(modelled, results, flow, threads, known_costs=bool(figures))
    if json_ is not None:
        write_json(json_, predictions(results, flow, threads))
        typer.echo(f"predictions written to {json_}")
    if plot is not None:
        from headgate.cli.simulate_plot import draw

        draw(results, plot)
        typer.echo(f"figure written to {plot}")


def split_policies(text: str) -> list[str]:
    """Splits a list of policies at commas; a part like `k=1ms` belongs to the policy before it.

    >>> split_policies("cqc:inner=hr,k=1ms,fifo")
    ['cqc:inner=hr,k=1ms', 'fifo']
    """
    policies: list[str] = []
    for part in re.split(r",(?![^(]*\))", text):
        name = part.strip()
        if policies and re.match(r"\w+\s*=", name):
            policies[-1] += f",{name}"
        elif name:
            policies.append(name)
    if not policies:
        raise InputError("--policies: no policy given; write for example --policies cqc,fifo")
    return list(dict.fromkeys(policies))


def parse_rates(text: str) -> dict[str, float]:
    """Rates of streams from text.

    >>> parse_rates("sensors=1500, trades=2e3")
    {'sensors': 1500.0, 'trades': 2000.0}
    """
    rates: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        stream, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not stream:
            raise InputError(f"--rates: '{part}' is not a rate; write stream=rows per second, for example sensors=1500")
        try:
            rate = float(value)
        except ValueError:
            raise InputError(f"--rates: '{value}' of stream {stream} is not a number of rows per second") from None
        if not rate > 0 or math.isinf(rate):
            raise InputError(f"--rates: stream {stream} has rate {value}; give rows per second above zero")
        if stream in rates:
            raise InputError(f"--rates: stream {stream} is given twice")
        rates[stream] = rate
    return rates


def _arrivals(rates: str, trace: Path | None, seconds: float | None) -> tuple[Mapping[str, Arrivals], float]:
    """The arrival process of each stream, and for how long rows arrive (s)."""
    from headgate.simulation import Poisson, RecordedArrivals
    from headgate.simulation.trace import read_trace

    if (trace is None) == (not rates.strip()):
        raise InputError("give either --rates stream=rows per second, or --trace FILE")
    if seconds is not None and (not seconds > 0 or math.isinf(seconds)):
        raise InputError(f"--seconds: {seconds:g} is not above zero")
    if trace is not None:
        moments = read_trace(trace, seconds if seconds is not None else math.inf)
        last = max((times[-1] for times in moments.values() if times), default=0.0)
        return {stream: RecordedArrivals(times) for stream, times in moments.items()}, max(last, 1e-9)
    given = parse_rates(rates)
    flow = seconds if seconds is not None else min(SECONDS, MANY_ROWS / sum(given.values()))
    return {stream: Poisson(rate, until=flow) for stream, rate in given.items()}, flow


def _graph(script: Path) -> Any:
    from headgate.graph.shared import SharedGraph

    catalog = load(script)
    graph = SharedGraph()
    for query in catalog.queries.values():
        graph.add(query)
    if not graph.queries:
        raise InputError(f"{script}: the script has no query; add CREATE QUERY name AS SELECT …")
    return graph


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}; give a JSON file of costs") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}") from error


def predictions(results: Mapping[str, SimulationResult], flow: float, threads: int) -> list[dict[str, Any]]:
    """The predictions for JSON, one object per policy. A class without results has null latencies."""

    def plain(value: float) -> float | None:
        return None if math.isnan(value) else value

    return [
        {
            "policy": text,
            "classes": {
                cls.name: {
                    "results": latency.count,
                    "mean": plain(latency.mean),
                    "p50": plain(latency.percentile(50)),
                    "p99": plain(latency.percentile(99)),
                }
                for cls in result.topology.classes
                for latency in (result.latency(cls=cls.name),)
            },
            "results_per_second": result.latency().count / result.end if result.end else 0.0,
            "queue_bytes": {"mean": result.mean_bytes, "peak": result.peak_bytes},
            "load": result.busy / (flow * threads),
            "seconds": result.end,
            "decisions": result.decisions,
        }
        for text, result in results.items()
    ]


def _show(
    modelled: Scenario, results: Mapping[str, SimulationResult], flow: float, threads: int, *, known_costs: bool
) -> None:
    console = output.console()
    topology = modelled.topology
    counts = {"queries": topology.queries, "operators": topology.operators, "streams": topology.streams}
    parts = ", ".join(f"{word}: {len(things)}" for word, things in counts.items())
    costs = "given" if known_costs else "defaults of each kind (set them with --costs)"
    console.print(f"{parts}; rows arrive for {flow:.3g} s; costs: {costs}", highlight=False)
    predicted = predictions(results, flow, threads)
    console.print(_table(predicted))
    for row in predicted:
        if row["load"] > 1:
            console.print(
                f"{row['policy']} is overloaded: the load is {row['load']:.0%} of capacity; "
                "latency grows as long as rows arrive",
                highlight=False,
            )


def _table(predicted: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("policy")
    for cls in predicted[0]["classes"]:
        table.add_column(f"{cls}: mean", justify="right")
        table.add_column("p99", justify="right")
    for heading in ("results/s", "memory: mean", "peak", "load"):
        table.add_column(heading, justify="right")
    for row in predicted:
        cells = [row["policy"]]
        for latency in row["classes"].values():
            cells += [duration(latency["mean"]), duration(latency["p99"])]
        cells.append(figure(row["results_per_second"]))
        cells += [size(row["queue_bytes"]["mean"]), size(row["queue_bytes"]["peak"]), f"{row['load']:.1%}"]
        table.add_row(*cells)
    return table


def _scaled(units: tuple[tuple[float, str], ...]) -> Callable[[float | None], str]:
    def text(value: float | None) -> str:
        if value is None:
            return "–"
        factor, unit = next((entry for entry in units if value >= entry[0]), units[-1])
        return f"{value / factor:.3g} {unit}"

    return text


duration = _scaled(((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))
size = _scaled(((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))
