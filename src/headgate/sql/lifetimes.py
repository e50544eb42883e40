"""When queries begin and end: the times of START AT and STOP AT, and changes between the phases of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from headgate.graph.queries import Query
from headgate.sql import statements as st
from headgate.sql.errors import Script

Known = Callable[[str, str], bool]
"""Whether a query with this name and SQL began in an earlier run, which this run continues."""


def moment(given: st.Moment | None, zone: str, script: Script) -> int | None:
    """A time in microseconds since 1970. Without an offset it is in the time zone of the session."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given.text.strip())
    except ValueError:
        message = f"'{given.text}' is not a time; write for example '2030-01-31 18:00:00'"
        raise script.error(message, given.at) from None
    return microseconds(found, zone)


def microseconds(time: datetime, zone: str) -> int:
    """A time in microseconds since 1970."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone))
    since = aware.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def timed(
    query: Query, start: st.Moment | None, stop: st.Moment | None, zone: str, now: float, known: Known, script: Script
) -> Query:
    """A query with its START AT and STOP AT. Times in the past are refused, unless an earlier run knows the query."""
    begins, ends = moment(start, zone, script), moment(stop, zone, script)
    if begins is not None and ends is not None and stop is not None and ends <= begins:
        raise script.error("STOP AT must be later than START AT", stop.at)
    past = [(word, at) for word, at, time in (("START", start, begins), ("STOP", stop, ends)) if _past(time, now)]
    if past and not known(query.name, query.sql):
        word, at = past[0]
        if at is not None:
            raise script.error(f"{word} AT '{at.text}' is in the past; it is {_shown(now, zone)} now", at.at)
    return replace(query, start=begins, stop=ends)


def _past(time: int | None, now: float) -> bool:
    return time is not None and time < now * 1e6


def _shown(now: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(now, ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}"


def paused(query: Query, keep: bool, now: float, script: Script, at: int) -> Query:
    """The query while it is paused."""
    check_alive(query, now, script, at)
    if query.pause:
        raise script.error(f"query {query.name} is paused already; RESUME QUERY it first", at)
    return replace(query, pause="keep" if keep else "drop")


def resumed(query: Query, now: float, script: Script, at: int) -> Query:
    """The query after a pause."""
    check_alive(query, now, script, at)
    if not query.pause:
        raise script.error(f"query {query.name} is not paused", at)
    return replace(query, pause="")


def stopped(query: Query, now: float, script: Script, at: int) -> Query:
    """The query after its end."""
    check_alive(query, now, script, at)
    return replace(query, stopped=True, pause="")


def check_alive(query: Query, now: float, script: Script, at: int) -> None:
    """Refuses to change a query that has ended."""
    if query.phase(now) == "stopped":
        raise script.error(f"query {query.name} has stopped; DROP QUERY it to declare it again", at)
