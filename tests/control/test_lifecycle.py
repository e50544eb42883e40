"""The lives of queries: phases by the clock, what a restart takes over, and the thread that keeps time."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.control.lifecycle import (
    LifecycleTimer,
    QueryLifecycles,
    active,
    changes,
    continued,
    has_begun,
    next_change,
)
from headgate.graph.queries import QueryClass
from headgate.graph.specs import Spec
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.plan import Plan
from headgate.sql import SqlError
from tests.runtime.plans import CRITICAL, above, query, source
from tests.sql.scripts import declared

SECOND = 1_000_000


def test_phases_follow_the_clock() -> None:
    timed = replace(query("q", source()), start=100 * SECOND, stop=200 * SECOND, pause="keep")
    assert [timed.phase(now) for now in (99.9, 100, 199.9, 200)] == ["scheduled", "paused", "paused", "stopped"]
    assert replace(timed, pause="").phase(100) == "running"
    assert replace(timed, stopped=True).phase(0) == "stopped"
    queries = {"q": timed, "r": query("r", source())}
    assert list(active(queries, 50)) == ["r"]
    assert list(active(queries, 150)) == ["q", "r"]
    assert [next_change(queries.values(), now) for now in (50, 100, 250)] == [100, 200, None]
    assert next_change([replace(timed, stopped=True)], 50) is None


def test_times_are_in_the_zone_of_the_session() -> None:
    catalog = declared()
    catalog.execute(
        "SET TIME ZONE 'Europe/Berlin';"
        "CREATE QUERY q START AT '2026-07-01 12:00:00' STOP AT '2026-07-01T12:00:01.5Z' ONCE AS SELECT * FROM sensors"
    )
    made = catalog.queries["q"]
    assert made.start is not None
    assert made.stop is not None
    assert made.stop - made.start == 7201.5 * SECOND
    assert made.once


def test_a_restart_takes_over_what_changed_while_running() -> None:
    plan = above(source(), 1)
    script = {name: query(name, plan) for name in ("altered", "paused", "ended", "edited", "plain", "later")}
    script["ended"] = replace(script["ended"], once=True)
    script["later"] = replace(script["later"], start=99 * SECOND)
    now = {
        **script,
        "altered": replace(script["altered"], cls=CRITICAL, spec=Spec(latency=5)),
        "paused": replace(script["paused"], pause="drop"),
        "edited": replace(script["edited"], pause="keep"),
    }
    known = changes(script, now, 50.0)
    assert {after.name for _, after in known} == {"altered", "paused", "edited", "later"}
    edited = {**script, "edited": replace(script["edited"], spec=Spec(latency=7))}
    found = continued(edited, known, ["ended", "gone"], {"critical": QueryClass("critical", 9)})
    assert set(found) == {"altered", "paused", "ended"}, "the script says something new of `edited`"
    assert (found["altered"].cls.priority, found["altered"].spec) == (9, Spec(latency=5))
    assert found["paused"].pause == "drop"
    assert found["ended"].stopped


def test_the_checkpoint_knows_queries_that_do_not_run(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    later = replace(query("later", above(source(), 2)), start=99 * SECOND, sql="SELECT 2")
    running = query("now", above(source(), 1))
    known = changes({}, {"later": later, "now": running}, 50.0)
    name = Plan((running,), "cqc", known=known).save(checkpoint)
    assert Plan.known_queries(checkpoint, name) == known == ((later, later),)
    assert Plan.load(checkpoint, name).known == known
    assert Plan.described(checkpoint, Commit(0, plan=name))["later"]["sql"] == "SELECT 2"


def test_a_restart_may_declare_what_has_begun(tmp_path: Path) -> None:
    """A script with START AT is run again when that time has passed."""
    script = "CREATE QUERY q START AT '2025-06-01 00:00:00' AS SELECT location FROM sensors"
    checkpoint = Checkpoint(str(tmp_path))
    known = replace(query("q", source()), sql="SELECT location FROM sensors")
    catalog = declared(lambda name, sql: has_begun(str(tmp_path), name, sql))
    with pytest.raises(SqlError, match="is in the past"):
        catalog.execute(script)
    checkpoint.commit(Commit(0, plan=Plan((known,), "cqc").save(checkpoint)))
    catalog.execute(script)
    with pytest.raises(SqlError, match="is in the past"):
        catalog.execute(script.replace("QUERY q", "QUERY other"))


def test_a_plan_without_queries_that_have_ended() -> None:
    parts = tuple(query(name, above(source(), 1)) for name in ("a", "a/0", "b"))
    plan = Plan((parts[0], parts[2]), "cqc", parts=parts).without(["a"])
    assert [each.name for each in plan.queries] == ["b"]
    assert [each.name for each in plan.parts] == ["b"]


def test_a_query_that_has_answered_begins_anew_when_it_is_declared_again() -> None:
    once = replace(query("q", above(source(), 1)), once=True)
    other = replace(query("q", above(source(), 2)), once=True)
    lives = QueryLifecycles()
    lives.note({}, {"q": once}, running=True)
    lives.answer(["q"])
    assert lives.still_running(lives.queries_at({"q": once}, 0.0)) == ()
    assert lives.note({"q": once}, {"q": other}, running=True), "it is not in the plan that was made before"
    assert lives.still_running(lives.queries_at({"q": other}, 0.0)) == (other,)
    assert not lives.note({"q": other}, {"q": other}, running=True)


def test_a_declaration_between_two_runs_makes_no_pause_part_of_the_script() -> None:
    """Paused while the engine ran; then the engine stopped, and another query was declared before it started again."""
    script, other = query("q", above(source(), 1)), query("r", above(source(), 2))
    paused, early = replace(script, pause="keep"), replace(other, pause="keep")
    lives = QueryLifecycles()
    lives.note({}, {"q": script}, running=False)
    lives.note({"q": script}, {"q": paused}, running=True)
    lives.note({"q": paused}, {"q": paused, "r": other}, running=False)
    known = lives.queries_at({"q": paused, "r": other}, 0.0).known
    assert known == ((script, paused),)
    assert continued({"q": script, "r": other}, known, (), {}) == {"q": paused}
    lives.note({"q": paused, "r": other}, {"q": paused, "r": early}, running=False)
    assert lives.queries_at({"q": paused, "r": early}, 0.0).known == ((script, paused),), "the script pauses r"


def test_the_timer_acts_when_it_is_time_and_when_wanted() -> None:
    now, acted = [100.0], threading.Semaphore(0)
    due: list[float | None] = [None]
    timer = LifecycleTimer(lambda _: due[0], acted.release, lambda: now[0])
    try:
        timer.wake()
        assert not acted.acquire(timeout=0.05), "nothing is due"
        timer.act_now()
        assert acted.acquire(timeout=60)
        due[0] = 90.0
        timer.wake()
        for _ in range(3):
            assert acted.acquire(timeout=60), "what is due is done, until it is no longer due"
    finally:
        timer.close()


def test_a_time_that_passes_while_the_timer_acts_is_not_missed() -> None:
    """The first change takes so long that the second one is due before it ends."""
    queries = [replace(query(f"q{at}", source()), start=at * SECOND) for at in (110, 120)]
    now, acts, acted = [100.0], [0.0], threading.Semaphore(0)

    def act() -> None:
        acts.append(now[0])
        now[0] += 15
        acted.release()

    timer = LifecycleTimer(lambda since: next_change(queries, since), act, lambda: now[0])
    try:
        now[0] = 110.0
        timer.wake()
        assert acted.acquire(timeout=60)
        assert acted.acquire(timeout=60), "the query that begins at 120 s"
        assert acts == [0.0, 110.0, 125.0]
        assert not acted.acquire(timeout=0.05), "nothing else is due"
    finally:
        timer.close()


def test_an_error_does_not_end_the_timer() -> None:
    tried = threading.Semaphore(0)

    def fail() -> None:
        tried.release()
        raise RuntimeError("the engine has stopped")

    timer = LifecycleTimer(lambda _: None, fail)
    for _ in range(2):
        timer.act_now()
        assert tried.acquire(timeout=60)
    timer.close()
