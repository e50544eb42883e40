"""Queries that answer once, pause and change in epochs: what commits keep, and what a restart continues with."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark import host
from headgate.spark.background import Background
from headgate.spark.jobs import Answers
from headgate.spark.messages import JobRequest
from tests.spark.epochs_run import Run, table_of
from tests.spark.inline import InlineJobs
from tests.spark.inline_replicas import ReplicaRun

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate;
CREATE QUERY all_rows AS SELECT k FROM s;
CREATE QUERY first ONCE AS SELECT window(ts, '10 seconds').start AS w, count(*) AS n
FROM s GROUP BY window(ts, '10 seconds');
CREATE QUERY total AS SELECT count(*) AS n FROM s;
"""


def keys(run: Run) -> list[int]:
    return sorted(row[0] for row in run.results("all_rows"))


def test_a_query_that_answers_once_ends_with_its_first_answer(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1), (2.0, 2))
    assert run.results("first") == []
    assert run.epochs.commit.ended == ()
    run.bring("s", (15.0, 3))
    assert [n for _, n in run.results("first")] == [2]
    assert run.epochs.commit.ended == ("first",)
    assert "first" not in [query.name for query in run.epochs.plan.queries]
    assert [epoch.answered for epoch in run.done if epoch.answered] == [("first",)]
    run.bring("s", (35.0, 4))
    assert [n for _, n in run.results("first")] == [2], "the window from 10 s on is not put out"
    assert keys(run) == [1, 2, 3, 4], "others go on"
    run.change()
    run.bring("s", (95.0, 5))
    assert [n for _, n in run.results("first")][1:] == [], "it was declared again, and begins anew"
    assert run.epochs.commit.ended == ()


def test_a_pause_holds_in_a_new_host_and_after_a_restart(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1))
    run.catalog.pause_query("all_rows")
    run.catalog.pause_query("total", keep=False)
    run.change()
    run.bring("s", (2.0, 2))
    assert keys(run) == [1]
    assert run.epochs.waiting == 0, "no epochs for rows that are to wait"
    again = Run(tmp_path, SCRIPT)
    again.batches = run.batches
    again.catalog.pause_query("all_rows")
    again.catalog.pause_query("total", keep=False)
    again.change()
    again.bring("s", (3.0, 3))
    assert keys(again) == []
    again.catalog.resume_query("all_rows")
    again.catalog.resume_query("total")
    again.change()
    again.bring("s", (4.0, 4))
    assert keys(again) == [2, 3, 4]
    assert again.results("total")[-1][0] == 2, "the rows of 2 and 3 were dropped"


def test_a_stopped_query_leaves_nothing_behind(tmp_path: Path) -> None:
    """Rows that wait for it, its state, and results that nobody has taken: a paused query has all of them."""
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1))
    run.catalog.pause_query("all_rows")
    run.change()
    run.bring("s", (2.0, 2))
    place = run.epochs.commit.snapshots[0]
    manifest = run.checkpoint.manifest(place)
    assert manifest["queues"] or manifest["outboxes"]
    for name in ("all_rows", "total"):
        run.catalog.stop_query(name)
    run.change()
    run.bring("s", (3.0, 3))
    manifest = run.checkpoint.manifest(run.epochs.commit.snapshots[0])
    assert (manifest["queues"], manifest["outboxes"]) == ({}, {})
    assert len(manifest["operators"]) == 1, "only that of `first`"


def test_a_query_that_moves_to_another_class_keeps_its_state(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1))
    run.catalog.execute("ALTER QUERY total SET CLASS critical; ALTER QUERY total SET (latency = '1 s')")
    run.change()
    run.bring("s", (2.0, 2))
    assert run.results("total")[-1][0] == 2
    assert not any(epoch.restored for epoch in run.done[1:])


def test_a_change_costs_one_epoch_and_a_plan_that_is_the_same_none(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1))
    run.catalog.execute("CREATE QUERY more AS SELECT k FROM s WHERE k > 0")
    before = len(run.done)
    run.change()
    run.settle()
    run.change()
    run.settle()
    assert len(run.done) == before + 1
    run.catalog.stop_query("more")
    run.change()
    run.change()
    assert run.epochs.change_pending, "no epoch has seen it yet"
    run.settle()
    assert len(run.done) == before + 2


def test_a_job_of_200_queries_takes_one_more_with_one_epoch_and_frees_one(tmp_path: Path) -> None:
    """The new query answers within two epochs, and class critical answers with every epoch that brings rows: the epoch
    waits for that class alone."""
    script = SCRIPT.split("CREATE QUERY")[0] + "CREATE QUERY alarm CLASS critical AS SELECT k FROM s;"
    script += "".join(
        f"CREATE QUERY q{n} AS SELECT k % {n + 2} AS r, count(*) AS n FROM s GROUP BY k % {n + 2};" for n in range(199)
    )
    run = Run(tmp_path, script)
    run.bring("s", (1.0, 1))
    operators = len(run.checkpoint.manifest(run.epochs.commit.snapshots[0])["operators"])
    run.catalog.execute("CREATE QUERY more CLASS critical AS SELECT k, count(*) AS n FROM s WHERE k > 0 GROUP BY k")
    before = len(run.done)
    run.change()
    run.settle()
    assert len(run.done) == before + 1
    run.bring("s", (3.0, 3))
    assert {"alarm", "more"} <= run.done[before + 1].inline.keys(), "the epoch after that of the change"
    assert [row[:2] for row in run.results("more")] == [(3, 1)]
    assert len(run.checkpoint.manifest(run.epochs.commit.snapshots[0])["operators"]) > operators
    run.catalog.stop_query("more")
    before = len(run.done)
    run.change()
    run.settle()
    assert len(run.done) == before + 1
    assert len(run.checkpoint.manifest(run.epochs.commit.snapshots[0])["operators"]) == operators
    run.bring("s", (4.0, 4))
    assert "alarm" in run.done[before + 1].inline
    assert run.results("alarm") == [(1,), (3,), (4,)]


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs end as soon as class critical has its results, and what they leave waits for the next one: nothing runs
    between them, as on a machine that is busy with other things."""
    monkeypatch.setattr(host, "SOON", 0.0)
    monkeypatch.setattr(Background, "run", lambda *_: None)


COUNTS = "".join(f"CREATE QUERY q{n} AS SELECT k % {n + 2} AS r, count(*) AS n FROM s GROUP BY 1;" for n in range(6))
CROWD = SCRIPT.split("CREATE QUERY")[0] + COUNTS + "CREATE QUERY alarm CLASS critical AS SELECT k FROM s;"
OTHER = "CREATE STREAM other (ts TIMESTAMP, k INT) USING rate;"


@pytest.mark.parametrize("cls", ["critical", "normal"])
@pytest.mark.parametrize("stream", ["s", "other"])
@pytest.mark.usefixtures("prompt")
def test_an_added_query_of_any_class_answers_with_its_first_rows(tmp_path: Path, stream: str, cls: str) -> None:
    """Others of its class wait meanwhile. A stream that no query has read makes no difference once it has rows."""
    run = Run(tmp_path, CROWD + OTHER + "CREATE CLASS normal WITH (priority = 3);")
    run.bring("s", (1.0, 1))
    run.catalog.execute(f"CREATE QUERY more CLASS {cls} AS SELECT k, count(*) AS n FROM {stream} GROUP BY k")
    before = len(run.done)
    run.change()
    run.settle()
    assert len(run.done) == before + 1
    if stream == "other":
        run.bring("s", (2.0, 2))
        before = len(run.done) - 1
    run.bring(stream, (3.0, 3))
    first = run.done[before + 1]
    assert first.taken == 1
    assert "more" in first.rows, "the epoch after that of the change"
    assert "alarm" in first.rows or stream == "other"
    assert first.waiting > 0 or stream == "other", "it has not waited for the others"
    run.bring(stream, (4.0, 4))
    assert sorted(row[:2] for row in run.results("more")) == [(3, 1), (4, 1)]
    assert {row[0]: row[1] for row in run.results("q0")} == {1: 2 if stream == "s" else 1, 0: 1}


@pytest.mark.usefixtures("prompt")
def test_a_change_that_meets_rows_is_answered_in_the_same_epoch(tmp_path: Path) -> None:
    run = Run(tmp_path, CROWD)
    run.bring("s", (1.0, 1))
    run.catalog.execute("CREATE QUERY more AS SELECT k FROM s WHERE k > 0")
    before = len(run.done)
    run.change()
    run.bring("s", (3.0, 3))
    assert {"alarm", "more"} <= run.done[before].rows.keys()


@pytest.mark.usefixtures("prompt")
def test_an_added_query_does_not_hold_up_the_epoch_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first rows may cost more than `FIRST`."""
    monkeypatch.setattr(host, "FIRST", 0.0)
    run = Run(tmp_path, CROWD)
    run.bring("s", (1.0, 1))
    run.catalog.execute("CREATE QUERY more AS SELECT k, count(*) AS n FROM s WHERE k > 0 GROUP BY k")
    before = len(run.done)
    run.change()
    run.settle()
    run.bring("s", (3.0, 3))
    assert "alarm" in run.done[before + 1].rows
    assert run.done[before + 1].waiting > 0
    assert run.results("more")[-1][:2] == (3, 1)


@pytest.mark.parametrize("brings", [False, True])
@pytest.mark.usefixtures("prompt")
def test_an_added_query_that_is_divided_answers_one_epoch_later(tmp_path: Path, brings: bool) -> None:
    """With two replicas, the partial results of its first rows are in the commit of their epoch, and reach the replica
    that merges them with the next one. That one answers, whether it brings rows or not."""
    run = ReplicaRun(tmp_path, CROWD, 2)
    run.bring(0, "s", table_of((1.0, 1), (2.0, 2)))
    run.catalog.execute("CREATE QUERY more AS SELECT count(*) AS n FROM s")
    run.rescale(2)
    run.settle()
    before = len(run.done)
    run.run_batch(1, "s", table_of((3.0, 3), (3.0, 9)))
    if brings:
        run.run_batch(2, "s", table_of((4.0, 4), (4.0, 9)))
    else:
        run.settle()
    first, second = run.done[before : before + 2]
    assert (first.taken > 0, second.taken > 0) == (True, brings)
    assert any(each.fragment.startswith("more/") for each in first.commit.exchange)
    assert "more" not in first.rows
    assert "more" in second.rows


@pytest.mark.usefixtures("prompt")
def test_a_change_does_not_wait_for_a_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epoch commits the plan; rows of class critical that arrive meanwhile would wait for it."""
    asked: list[float | None] = []
    ask = InlineJobs.ask

    def noted(jobs: InlineJobs, request: JobRequest) -> Answers:
        asked.append(request.common.budget)
        return ask(jobs, request)

    monkeypatch.setattr(InlineJobs, "ask", noted)
    run = Run(tmp_path, CROWD)
    run.epochs.budget = 1.0
    run.run_batch("s", (1.0, 1))
    assert run.epochs.waiting > 0
    run.catalog.execute("CREATE QUERY more AS SELECT k FROM s WHERE k > 0")
    run.change()
    run.epochs.run_backlog()
    assert asked == [0.0]
    assert not run.epochs.change_pending
