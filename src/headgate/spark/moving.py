"""Moves the state in a commit to the replicas of another plan: reads the snapshots of all and writes new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.graph.operators import Source
from headgate.operators.batch import FOREVER, NEVER
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.checkpoint_store import CheckpointStore
from headgate.spark.commit import Commit
from headgate.spark.messages import Place
from headgate.spark.placement import Placement
from headgate.spark.plan import Plan
from headgate.spark.redistribution import redistributed


def placement_of(plan: Plan) -> Placement:
    """Where the queries of a plan run, even if there is only one replica."""
    return plan.placement or Placement.single(plan.run_queries)


def must_move(old: Plan, new: Plan) -> bool:
    """Whether queries that both plans have run elsewhere under the new one, so that their state must be moved."""
    if old.replicas != new.replicas:
        return True
    if new.replicas == 1:
        return False
    before, after = placement_of(old), placement_of(new)
    plans = {query.name: query.plan for query in old.run_queries}
    same = [query.name for query in new.run_queries if plans.get(query.name) == query.plan]
    return any(
        before.routes[name] != after.routes[name]
        or (before.table != after.table and any(route.kind == "key" for route in before.routes[name].values()))
        for name in same
    )


def moved(
    checkpoint: Checkpoint, commit: Commit, old: Plan, new: Plan, attempt: str
) -> tuple[tuple[Place, ...], tuple[str, ...], dict[str, int]]:
    """The snapshots of the new replicas for the epoch after `commit`, all files that they need, and the newest event
    time of each stream. No rows may wait under the old plan; results may, those of paused queries."""
    manifests = [checkpoint.manifest(place) for place in commit.snapshots]
    sources, targets = [], []
    for manifest in manifests:
        sources.append(CheckpointStore(checkpoint))
        sources[-1].adopt(manifest)
    for replica in range(new.replicas):
        targets.append(CheckpointStore(checkpoint))
        targets[-1].begin(commit.epoch + 1, f"{attempt}-{replica}")
        targets[-1].open_bundle()
    before = {query.name: query for query in old.queries}
    # Sinks are not compared: those of a plan from the checkpoint have no secrets.
    queries = [
        query
        for query in new.queries
        if (known := before.get(query.name)) is not None and (known.plan, known.mode) == (query.plan, query.mode)
    ]
    try:
        found = redistributed(queries, placement_of(old), placement_of(new), manifests, sources, targets)
    except ValueError as error:
        raise CheckpointError(f"checkpoint {checkpoint.uri}: its state cannot be moved: {error}") from error
    places: list[Place] = []
    files: dict[str, None] = {}
    for target, manifest in zip(targets, found, strict=True):
        place, needed = target.close_bundle(manifest)
        places.append(place)
        files |= dict.fromkeys(needed)
    return tuple(places), tuple(files), event_times(commit, manifests, old)


def event_times(commit: Commit, manifests: Sequence[Mapping[str, Any]], plan: Plan) -> dict[str, int]:
    """The newest event time of each stream: that of the commit, or derived from the watermark in a commit of an earlier
    version, which has no event times."""
    found = dict(commit.event_times)
    if plan.replicas > 1:
        return found
    sources = (node for query in plan.queries for node in query.plan.walk() if isinstance(node, Source))
    for source in sources:
        for manifest in manifests:
            watermark = manifest["watermarks"].get(source.stream, NEVER)
            if source.time is not None and NEVER < watermark < FOREVER:
                newest = watermark + source.delay
                found[source.stream] = max(found.get(source.stream, newest), newest)
    return found
