"""State that moves to other replicas between and during runs, without Spark."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.operators.batch import FOREVER
from headgate.spark import epochs, host
from headgate.spark.background import Background
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.messages import Place
from tests.spark.inline_replicas import ReplicaRun

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
"""
PASSWORD = (
    "INTO postgresql OPTIONS (url 'jdbc:postgresql://h/db', table 't', password 'hunter2', mode 'upsert', key 'k')"
)
SUMS = "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k"


def rows(number: int, count: int = 60) -> pa.Table:
    base = 1_700_000_000_000_000 + number * 3_000_000
    return pa.table(
        {
            "ts": pa.array([base + i * 7919 % 4000 * 1000 for i in range(count)], pa.timestamp("us", "UTC")),
            "k": [f"k{i % 7}" for i in range(count)],
            "v": pa.array([(i * 31 + number) % 100 for i in range(count)], pa.int32()),
        }
    )


@pytest.mark.parametrize("into", ["", PASSWORD], ids=["no sink", "a password"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 1)])
def test_a_restart_with_other_replicas_keeps_the_state(tmp_path: Path, into: str, before: int, after: int) -> None:
    """In the checkpoint, sinks have no secrets."""
    script = f"{STREAM} CREATE QUERY sums {into} AS {SUMS};"
    ReplicaRun(tmp_path, script, before).bring(0, "s", rows(0))
    run = ReplicaRun(tmp_path, script, after)
    run.bring(1, "s", rows(1))
    assert sum(row[1] for row in run.results("sums")) == 120


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_a_complete_checkpoint_stays_complete_with_other_replicas(tmp_path: Path, before: int, after: int) -> None:
    script = f"{STREAM} CREATE QUERY sums AS {SUMS};"
    run = ReplicaRun(tmp_path, script, before)
    run.bring(0, "s", rows(0))
    run.finish()
    done = run.epochs.commit
    assert done.complete
    again = ReplicaRun(tmp_path, script, after).epochs.commit
    assert again.complete
    assert again.epoch == done.epoch
    assert FOREVER not in again.event_times.values()


def test_queries_that_have_answered_stay_ended(tmp_path: Path) -> None:
    script = f"{STREAM} CREATE QUERY sums AS {SUMS}; CREATE QUERY one ONCE AS SELECT v FROM s;"
    run = ReplicaRun(tmp_path, script, 1)
    run.bring(0, "s", rows(0))
    assert run.epochs.commit.ended == ("one",)
    run.rescale(2)
    assert run.epochs.commit.ended == ("one",)
    run.bring(1, "s", rows(1))
    assert ReplicaRun(tmp_path, script, 3).epochs.commit.ended == ("one",)


def test_a_replica_reads_only_the_rows_of_fragments_that_it_receives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[Place] = Counter()
    before = Checkpoint.read

    def counted(checkpoint: Checkpoint, place: Place) -> pa.Table:
        read[place] += 1
        return before(checkpoint, place)

    monkeypatch.setattr(Checkpoint, "read", counted)
    run = ReplicaRun(tmp_path, f"{STREAM} CREATE QUERY whole AS SELECT count(*) AS n FROM s;", 3)
    run.bring(0, "s", rows(0))
    assert run.results("whole")[-1][0] == 60
    sent = {each.place for epoch in run.done for each in epoch.commit.exchange}
    assert len(sent) == 3
    assert {place: read[place] for place in sent} == dict.fromkeys(sent, 1)


QUERIES = f"""
CREATE QUERY sums AS {SUMS};
CREATE QUERY some AS SELECT k, v FROM s WHERE v > 50;
CREATE QUERY whole AS SELECT count(*) AS n FROM s;
CREATE QUERY windows AS SELECT window(ts, '5 seconds') AS w, k, count(*) AS n
FROM s GROUP BY window(ts, '5 seconds'), k;
"""
NAMES = ("sums", "some", "whole", "windows")


def paused(how: str) -> str:
    return "".join(f"PAUSE QUERY {name} {how} ROWS;" for name in NAMES)


def answers(*runs: ReplicaRun) -> dict[str, object]:
    """All results; of those that update, the newest."""
    found = {name: [row for run in runs for row in run.results(name)] for name in NAMES}
    return {
        "sums": {row[0]: row[:3] for row in found["sums"]},
        "some": Counter(map(repr, found["some"])),
        "whole": found["whole"][-1][0],
        "windows": Counter(map(repr, found["windows"])),
    }


def dropped(run: ReplicaRun, query: str = "some") -> int:
    """The rows that a paused query has lost, by the last commit."""
    manifests = [run.checkpoint.manifest(place) for place in run.epochs.commit.snapshots]
    return sum(manifest.get("dropped", {}).get(query, 0) for manifest in manifests)


def life(root: Path, how: str, before: int, after: int, restarted: bool) -> dict[str, object]:
    """The answers of queries that are paused while the number of replicas changes."""
    root.mkdir()
    first = run = ReplicaRun(root, STREAM + QUERIES, before, kept=1000)
    run.bring(0, "s", rows(0))
    run.catalog.execute(paused(how))
    run.rescale(before)
    run.settle()
    emitted = {name: len(run.results(name)) for name in NAMES}
    run.bring(1, "s", rows(1))
    run.bring(2, "s", rows(2))
    lost = dropped(run)
    assert (lost > 0) == (how == "DROP")
    if restarted:
        run = ReplicaRun(root, STREAM + QUERIES + paused(how), after, kept=1000)
    else:
        run.rescale(after)
    assert dropped(run) == lost
    run.settle()
    run.bring(3, "s", rows(3))
    runs = dict.fromkeys((first, run))
    assert {name: sum(len(each.results(name)) for each in runs) for name in NAMES} == emitted, (
        "paused queries are silent"
    )
    for name in NAMES:
        run.catalog.resume_query(name)
    run.rescale(after)
    run.bring(4, "s", rows(4))
    run.finish()
    return answers(*runs)


QUICK = {(1, 2, "KEEP", False), (2, 1, "DROP", True), (2, 3, "KEEP", True)}
MOVES = product([(1, 2), (2, 3), (2, 1)], ["KEEP", "DROP"], [False, True])


@pytest.mark.parametrize(
    ("before", "after", "how", "restarted"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in ((*replicas, how, restarted) for replicas, how, restarted in MOVES)
    ],
)
def test_paused_queries_move_and_stay_silent(
    tmp_path: Path, before: int, after: int, how: str, restarted: bool
) -> None:
    """They answer as if they had not moved, once they are resumed."""
    found = life(tmp_path / "moved", how, before, after, restarted)
    assert found == life(tmp_path / "stayed", how, before, before, False)
    assert found["whole"] == (300 if how == "KEEP" else 120)


SIDES = f"""{STREAM}
CREATE QUERY alone AS SELECT k FROM s WHERE v <= 50;
CREATE QUERY twin AS SELECT k, v FROM s WHERE v > 50;
CREATE QUERY running AS SELECT k, v FROM s WHERE v > 50;
"""
DROPPING = "PAUSE QUERY alone DROP ROWS; PAUSE QUERY twin DROP ROWS;"


@pytest.mark.parametrize("moment", ["with the pause", "during the pause", "at a restart"])
def test_a_move_answers_no_rows_that_a_pause_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Rows wait for a query with operators of its own, and for one that shares them with a query that runs on."""
    monkeypatch.setattr(host, "SOON", 0.0)
    monkeypatch.setattr(Background, "run", lambda *_: None)
    run = ReplicaRun(tmp_path, SIDES, 2, kept=1000)
    run.epochs.budget = 0.0
    if moment == "during the pause":
        run.catalog.execute(DROPPING)
        run.rescale(2)
    run.run_batch(0, "s", rows(0))
    assert run.epochs.waiting, "nothing has run yet"
    first = run
    if moment == "with the pause":
        run.catalog.execute(DROPPING)
        run.rescale(2)
    if moment == "at a restart":
        run = ReplicaRun(tmp_path, SIDES + DROPPING, 1, kept=1000)
    else:
        run.rescale(1)
    run.epochs.budget = None
    run.settle()
    high = sum(v > 50 for v in rows(0).column("v").to_pylist())
    assert sum(len(each.results("running")) for each in {first, run}) == high
    assert (dropped(run, "alone"), dropped(run, "twin"), dropped(run, "running")) == (60, high, 0)
    run.catalog.execute("RESUME QUERY alone; RESUME QUERY twin;")
    run.rescale(1)
    run.settle()
    assert (run.results("alone"), run.results("twin")) == ([], [])
    run.bring(1, "s", rows(1))
    assert len(run.results("alone")) + len(run.results("twin")) == 60
    assert (dropped(run, "alone"), dropped(run, "twin")) == (60, high)


def test_a_move_drops_what_is_between_the_parts_of_a_query_that_drops_its_rows(tmp_path: Path) -> None:
    run = ReplicaRun(tmp_path, f"{STREAM} CREATE QUERY whole AS SELECT count(*) AS n FROM s;", 2)
    run.run_batch(0, "s", rows(0))
    assert run.epochs.commit.exchange
    run.catalog.pause_query("whole", keep=False)
    run.rescale(2)
    run.rescale(1)
    assert dropped(run, "whole") > 0
    run.catalog.resume_query("whole")
    run.rescale(1)
    run.bring(1, "s", rows(1))
    assert [row[0] for row in run.results("whole")] == [0, 60], "as without a move"


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_the_rows_of_a_paused_query_that_is_gone_are_dropped(tmp_path: Path, before: int, after: int) -> None:
    script = f"{STREAM} CREATE QUERY sums AS {SUMS};"
    run = ReplicaRun(tmp_path, script + "CREATE QUERY whole AS SELECT count(*) AS n FROM s;", before)
    run.catalog.pause_query("whole")
    run.rescale(before)
    run.bring(0, "s", rows(0))
    again = ReplicaRun(tmp_path, script, after)
    again.bring(1, "s", rows(1))
    assert sum(row[1] for row in again.results("sums")) == 120
    assert again.results("whole") == []
    assert not any(again.checkpoint.manifest(each)["outboxes"] for each in again.epochs.commit.snapshots)


def test_a_paused_query_that_answers_once_does_so_after_the_move(tmp_path: Path) -> None:
    run = ReplicaRun(tmp_path, f"{STREAM} CREATE QUERY one ONCE AS SELECT v FROM s;", 1, kept=1000)
    run.catalog.pause_query("one")
    run.rescale(1)
    run.bring(0, "s", rows(0))
    run.rescale(2)
    run.settle()
    assert (run.epochs.commit.ended, run.results("one")) == ((), [])
    run.catalog.resume_query("one")
    run.rescale(2)
    run.settle()
    assert run.epochs.commit.ended == ("one",)
    assert sorted(run.results("one")) == sorted((value,) for value in rows(0).column("v").to_pylist())


def test_a_move_that_fails_leaves_queries_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ValueError("no")

    run = ReplicaRun(tmp_path, STREAM + QUERIES, 1, kept=1000)
    run.catalog.execute(paused("KEEP"))
    run.rescale(1)
    run.bring(0, "s", rows(0))
    with monkeypatch.context() as patched:
        patched.setattr(epochs, "moved", full)
        with pytest.raises(ValueError, match="no"):
            run.rescale(2)
    assert run.epochs.plan.paused == set(NAMES)
    run.settle()
    run.bring(1, "s", rows(1))
    assert not any(run.results(name) for name in NAMES)
    for name in NAMES:
        run.catalog.resume_query(name)
    run.rescale(1)
    run.settle()
    assert answers(run)["whole"] == 120
