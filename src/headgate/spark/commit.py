"""The commit of an epoch: everything that a restart needs to know, as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.spark.messages import ExchangedRows, Place, WrittenFile, exchanged

FORMAT = 3
READABLE = (2, FORMAT)
"""The formats of plans and commits that are read as they are: 3 added replicas to 2."""


@dataclass(frozen=True)
class Commit:
    """One epoch: the batches of the lanes it contains, the state after it, and its results.

    - `lanes`: the last batch of each lane
    - `snapshots`: the place of each replica's manifest; `files`: all files that the state needs
    - `event_times`: the newest event time of each stream so far
    - `exchange`, `reached`: what fragments of queries send to the replicas of the next epoch (`EpochRequest`)
    - `results`, `newest`, `unwritten`, `written`: where its results are; see `Delivered` in `delivery.py`
    - `failures`: every query that has failed so far (`Failure.state`)
    - `plan`: the name of the plan; empty in a commit that was read from format 1
    - `complete`: every stream has ended, and there is nothing to continue with
    - `ended`: queries that answer once and are done
    """

    epoch: int
    lanes: Mapping[str, int] = field(default_factory=dict)
    snapshots: tuple[Place, ...] = ()
    files: tuple[str, ...] = ()
    results: tuple[tuple[str, Place], ...] = ()
    newest: tuple[tuple[str, Place], ...] = ()
    unwritten: tuple[tuple[str, Place], ...] = ()
    written: tuple[WrittenFile, ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    plan: str = ""
    complete: bool = False
    event_times: Mapping[str, int] = field(default_factory=dict)
    exchange: tuple[ExchangedRows, ...] = ()
    reached: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[str, ...] = ()

    def text(self) -> str:
        """The commit as JSON."""
        # `default` is called for places and files: `asdict` would copy everything, which takes longer than writing it.
        return json.dumps({"format": FORMAT, **vars(self)}, separators=(",", ":"), default=vars)

    @staticmethod
    def of(found: Mapping[str, Any]) -> Commit:
        """The commit of a readable format with these values."""
        return Commit(
            epoch=found["epoch"],
            lanes=found["lanes"],
            snapshots=tuple(Place(**place) for place in found["snapshots"]),
            files=tuple(found["files"]),
            results=_places(found["results"]),
            newest=_places(found["newest"]),
            unwritten=_places(found["unwritten"]),
            written=tuple(WrittenFile(**each) for each in found["written"]),
            failures=tuple(found["failures"]),
            plan=found["plan"],
            complete=found["complete"],
            event_times=found.get("event_times", {}),
            exchange=exchanged(found.get("exchange", ())),
            reached=found.get("reached", {}),
            ended=tuple(found.get("ended", ())),
        )

    @property
    def replicas(self) -> int:
        """The number of replicas whose state it names; 0 in the first commit."""
        return len(self.snapshots)

    @property
    def outbox(self) -> tuple[tuple[str, Place], ...]:
        """All its parts in the outbox."""
        return (*self.results, *self.newest, *self.unwritten)


def _places(found: list[Any]) -> tuple[tuple[str, Place], ...]:
    return tuple((query, Place(**place)) for query, place in found)
