"""Queries that pause, resume, begin and end by the clock, over any number of kills: every row is answered once."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.control.lifecycle import QueryLifecycles, has_begun, taken_over
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.epochs import Epoch, Epochs
from headgate.spark.lanes import _columns
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.required_columns import required_columns
from headgate.sql import Catalog
from tests.spark.epochs_run import Run
from tests.spark.inline import InlineJobs, hosts_end, inline_host

BEGIN, START, STOP = 100.0, 150.0, 200.0
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate;
CREATE QUERY every AS SELECT k FROM s;
CREATE QUERY odd AS SELECT k FROM s WHERE k % 2 = 1;
CREATE QUERY big AS SELECT k FROM s WHERE k % 2 = 1 AND k > 3;
CREATE QUERY total AS SELECT count(*) AS n, sum(k) AS t FROM s;
CREATE QUERY timed START AT '1970-01-01 00:02:30' STOP AT '1970-01-01 00:03:20' AS SELECT k FROM s WHERE k >= 0;
"""
QUERIES = {
    "every": lambda k: True,
    "odd": lambda k: k % 2 == 1,
    "big": lambda k: k % 2 == 1 and k > 3,
    "total": lambda k: True,
    "timed": lambda k: True,
}


class Life(Run):
    """A run that begins as an engine does: the script first, then what the checkpoint knows of its queries."""

    def __init__(self, root: Path, now: float, batches: int, done: list[Epoch]) -> None:
        self.now, self.batches, self.done = now, batches, done
        clock = lambda: self.now  # noqa: E731
        catalog = self.catalog = Catalog(clock=clock, known=lambda name, sql: has_begun(str(root / "ck"), name, sql))
        catalog.execute(SCRIPT)
        self.streams = dict(catalog.streams)
        self._lives = QueryLifecycles()
        self._lives.note({}, dict(catalog.queries), running=False)
        wanted = required_columns(tuple(dict(catalog.queries).values()))
        self.packing = Packing({name: _columns(self.streams[name], wanted[name]) for name in wanted})
        checkpoint = self.checkpoint = Checkpoint(str(root / "ck"))
        self.host = inline_host()
        jobs, name = InlineJobs(self.host), checkpoint.identity()
        self.epochs = Epochs(jobs, checkpoint, name, "t", self.done.append, None, clock=clock)
        for query in taken_over(checkpoint, self.epochs.commit, dict(catalog.queries), catalog.classes):
            catalog.put_query(query)
        self.change()

    def change(self) -> None:
        current = self._lives.queries_at(dict(self.catalog.queries), self.now)
        running = self._lives.still_running(current)
        self.epochs.plan = Plan(running, "cqc", packings={"main@1": self.packing}, known=current.known)
        self.settle()


class Model:
    """What queries must answer: by row, whether a query gets it, at once or after its pause."""

    def __init__(self) -> None:
        self.paused: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.answered = {name: Counter[int]() for name in QUERIES}
        self.kept = {name: Counter[int]() for name in QUERIES}

    def alive(self, name: str, now: float) -> bool:
        return name not in self.stopped and (name != "timed" or START <= now < STOP)

    def row(self, k: int, now: float) -> None:
        for name, wanted in QUERIES.items():
            if wanted(k) and self.alive(name, now) and self.paused.get(name) != "drop":
                (self.kept if self.paused.get(name) else self.answered)[name][k] += 1

    def resume(self, name: str) -> None:
        self.paused.pop(name)
        self.answered[name] += self.kept[name]
        self.kept[name].clear()


MOVES = st.one_of(
    st.tuples(st.just("bring"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["keep", "drop", "resume", "stop"]), st.sampled_from(sorted(QUERIES))),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


@given(st.lists(MOVES, max_size=30))
@example([("bring", 2), ("keep", "every"), ("bring", 2), ("kill", 0), ("bring", 1), ("kill", 0), ("resume", "every")])
@example([("wait", 40), ("wait", 20), ("bring", 2), ("keep", "timed"), ("bring", 2), ("kill", 0), ("resume", "timed")])
@example([("wait", 40), ("wait", 20), ("keep", "timed"), ("bring", 2), ("wait", 40), ("kill", 0), ("bring", 2)])
def test_every_row_is_answered_once(moves: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, hosts_end():
        life, model, last = Life(Path(folder), BEGIN, 0, []), Model(), 0
        for move, what in moves:
            if move == "bring":
                values = range(last, last + what)
                last += what
                life.bring("s", *((life.now, k) for k in values))
                for k in values:
                    model.row(k, life.now)
            elif move == "kill":
                life.host.close()
                life = Life(Path(folder), life.now, life.batches, life.done)
            elif move == "wait":
                life.now += what
                life.change()
            elif not _may(model, move, what, life.now):
                continue
            elif move == "resume":
                life.catalog.resume_query(what)
                life.change()
                model.resume(what)
            elif move == "stop":
                life.catalog.stop_query(what)
                life.change()
                model.stopped.add(what)
            else:
                life.catalog.pause_query(what, keep=move == "keep")
                life.change()
                model.paused[what] = move
        life.bring("s", (life.now, 1_000_000))
        model.row(1_000_000, life.now)
        for name in QUERIES.keys() - {"total"}:
            assert Counter(k for (k, *_) in life.results(name)) == model.answered[name], name
        if model.alive("total", life.now) and not model.paused.get("total"):
            n, t, *_ = life.results("total")[-1]
            assert (n, t) == (model.answered["total"].total(), sum(model.answered["total"].elements()))
        assert life.epochs.waiting == 0


def _may(model: Model, move: str, name: str, now: float) -> bool:
    """Whether a change is allowed: not of a query that has ended, and no second pause."""
    ended = name in model.stopped or (name == "timed" and now >= STOP)
    if move == "stop":
        return not ended
    return not ended and (name in model.paused) == (move == "resume")
