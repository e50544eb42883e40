"""The oracle's cases on Spark: file sources, one file a batch over many epochs, file sinks, then end of stream."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.graph.queries import Sink
from headgate.scheduling.registry import policies
from tests.oracle.answers import Answer, check
from tests.oracle.cases import Case, load_all, over_the_same_rows

pytestmark = pytest.mark.spark


def _groups() -> dict[str, list[Case]]:
    """Cases over the same rows with the same declarations: their queries run in one engine."""
    found: dict[tuple[int, str], list[Case]] = {}
    for number, cases in enumerate(over_the_same_rows(case for case in load_all() if case.fails is None)):
        for case in cases:
            found.setdefault((number, case.statements), []).append(case)
    return {f"{cases[0].file.stem} {number}": cases for number, cases in enumerate(found.values())}


GROUPS = _groups()


def _placed(setup: str, root: Path) -> str:
    """The declarations with every stream and table in a folder of its own."""

    def place(found: re.Match[str]) -> str:
        per_trigger = ", maxFilesPerTrigger '1'" if found["kind"].upper() == "STREAM" else ""
        return f"{found['head']} USING parquet OPTIONS (path '{root}/{found['name']}'{per_trigger})"

    return re.sub(
        r"(?is)(?P<head>CREATE\s+(?P<kind>STREAM|TABLE)\s+(?P<name>\w+)\s*\(.*?\))\s*USING\s+\w+\s+OPTIONS\s*\([^)]*\)",
        place,
        setup,
    )


def _filled(case: Case, root: Path) -> None:
    for name, batches in case.batches.items():
        folder = root / name
        folder.mkdir(parents=True)
        for number, batch in enumerate(batches):
            file = folder / f"{number:03d}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), file)
            # File sources read files in the order of their modification times.
            stamp = 1_700_000_000 + number
            os.utime(file, (stamp, stamp))


def run_cases(spark: Any, cases: list[Case], root: Path, policy: str, replicas: int = 1) -> None:
    """Runs the queries of cases over the same rows in one engine, and checks their answers."""
    _filled(cases[0], root)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", cases[0].zone)
    try:
        engine = hg.Engine(policy, str(root / "ck"), spark=spark, replicas=replicas)
        engine.execute(_placed(cases[0].setup, root))
        if cases[0].statements:
            engine.execute(_placed(cases[0].statements + ";", root))
        files: set[str] = set()
        for number, case in enumerate(cases):
            name = f"case{number}"
            made = engine.query(name, case.query, sink=())
            # Files need columns of different names.
            if made.mode == "append" and len({title.lower() for title in made.schema.names}) == len(made.schema.names):
                engine.drop(name)
                engine.query(name, case.query, sink=Sink("parquet", {"path": str(root / "out" / name)}))
                files.add(name)
        engine.run_once()
        for number, case in enumerate(cases):
            name = f"case{number}"
            table = engine.results(name)
            if name in files:
                parts = [pq.read_table(f) for f in sorted((root / "out" / name).glob("*.parquet"))]
                table = pa.concat_tables([table.schema.empty_table(), *(p.cast(table.schema) for p in parts)])
            try:
                check(Answer.of(table), case)
            except AssertionError as error:
                raise AssertionError(f"{case.id}\n{error}") from error
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


QUICK = {"joins", "aggregates", "windows", "catalyst", "static", "updates"}


@pytest.mark.parametrize("name", [name for name in GROUPS if name.split()[0] in QUICK])
def test_cases_on_spark(spark: Any, tmp_path: Path, name: str) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GROUPS if name.split()[0] not in QUICK])
def test_other_cases_on_spark(spark: Any, tmp_path: Path, name: str) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc")


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(set(policies()) - {"mss", "tuple-greedy"}))
def test_every_policy_on_spark(spark: Any, tmp_path: Path, policy: str) -> None:
    name = next(name for name in GROUPS if name.startswith("joins"))
    run_cases(spark, GROUPS[name], tmp_path, policy)
