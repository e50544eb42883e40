"""State that moves to other replicas between and during runs, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.operators.batch import FOREVER
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
