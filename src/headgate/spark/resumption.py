"""Where a restart continues, and how its queries differ from those that wrote the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.graph.queries import Query
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.plan import Plan


@dataclass(frozen=True)
class Resumption:
    """The epoch that a restart continues after, and the queries that were added, removed and changed since."""

    epoch: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    complete: bool = False

    @staticmethod
    def of(checkpoint: Checkpoint, commit: Commit, queries: Mapping[str, Query]) -> Resumption | None:
        """What continuing after a commit with these queries means; None if the checkpoint is new."""
        if commit.epoch < 0:
            return None
        before = Plan.described(checkpoint, commit)
        return Resumption(
            commit.epoch,
            tuple(name for name in queries if name not in before),
            tuple(name for name in before if name not in queries),
            tuple(name for name, query in queries.items() if name in before and before[name]["sql"] != query.sql),
            commit.complete,
        )

    def lines(self) -> list[str]:
        """For users: one line a fact."""
        if self.complete:
            return [f"the checkpoint is complete: it ended with epoch {self.epoch}, and every window has been emitted"]
        facts = [f"continues after epoch {self.epoch}"]
        facts += [f"query {name} is new: it sees rows from now on" for name in self.added]
        facts += [f"query {name} is no longer in the script: its state is dropped" for name in self.removed]
        facts += [
            f"query {name} was changed: what it does not share with its old form starts empty" for name in self.changed
        ]
        return facts
