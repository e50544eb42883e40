"""Plans in the checkpoint: read back as they were, named by their content, removed when no epoch needs them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headgate.connectors import callback
from headgate.graph.queries import Sink
from headgate.runtime.limits import Limits
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.commit import Commit
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.resumption import Resumption
from headgate.sql import Catalog

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE TABLE limits (k STRING, most INT) USING parquet OPTIONS (path 'unused');
CREATE QUERY high INTO parquet OPTIONS (path 'out') AS
SELECT s.k, v, most FROM s JOIN limits ON s.k = limits.k WHERE v > most;
"""
LIMITS = pa.table({"k": ["a", "b"], "most": pa.array([1, 2], pa.int32())})


def _plan(*, policy: str = "cqc", tables: dict[str, pa.Table] | None = None, more: str = "") -> Plan:
    catalog = Catalog()
    catalog.execute(SCRIPT + more)
    catalog.query("called", "SELECT k FROM s", sinks=(callback(print), Sink("console")))
    packing = Packing(
        {"s": [("ts", pa.timestamp("us", "UTC"), "`ts`"), ("k", pa.string(), "`k`"), ("v", pa.int32(), None)]},
        {"s": "flaw"},
        {"s": [("catalyst:size", pa.list_(pa.int32()), "array(`k`)")]},
    )
    return Plan(
        tuple(dict(catalog.queries).values()),
        policy,
        "graph",
        3,
        {"limits": LIMITS} if tables is None else tables,
        {"main@1": packing},
        Limits(memory=1 << 20),
    )


def _files(root: Path, folder: str) -> set[str]:
    return {file.name for file in (root / folder).iterdir()}


def test_a_plan_is_read_back_as_it_was(tmp_path: Path) -> None:
    plan = _plan()
    name = plan.save(Checkpoint(str(tmp_path)))
    again = Plan.load(Checkpoint(str(tmp_path)), name)
    assert again.queries == plan.queries
    assert [query.plan.text for query in again.queries] == [query.plan.text for query in plan.queries]
    assert (again.policy, again.mode, again.threads, again.limits) == ("cqc", "graph", 3, plan.limits)
    assert again.tables["limits"].equals(LIMITS)
    packing, before = again.packings["main@1"], plan.packings["main@1"]
    assert (packing.slots, packing.extra, packing.streams) == (before.slots, before.extra, before.streams)
    assert (packing.select("s"), packing.names("s")) == (before.select("s"), before.names("s"))


def test_a_plan_and_its_tables_are_named_by_their_content(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert _plan().save(checkpoint) == _plan().save(checkpoint)
    assert _plan(policy="fifo").save(checkpoint) != _plan().save(checkpoint)
    assert len(_files(tmp_path, "plans")) == 2
    assert len(_files(tmp_path, "tables")) == 1, "two plans share a table"
    other = _plan(tables={"limits": LIMITS.slice(1)})
    assert Plan.load(checkpoint, other.save(checkpoint)).tables["limits"].equals(LIMITS.slice(1))
    assert len(_files(tmp_path, "tables")) == 2


def test_plans_that_no_epoch_needs_are_removed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    names = []
    for epoch in range(4):
        plan = _plan(policy=f"rr:rows={epoch + 1}", tables={"limits": LIMITS.slice(0, 1 + (epoch == 0))})
        names.append(plan.save(checkpoint))
        checkpoint.commit(Commit(epoch, plan=names[-1]))
        checkpoint.publish(epoch)
    following = _plan(policy="fifo").save(checkpoint)
    checkpoint.clean()
    assert _files(tmp_path, "plans") == {names[2], names[3], following}
    assert Plan.load(checkpoint, names[2]).tables["limits"].num_rows == 1
    assert Plan.load(checkpoint, following).tables["limits"].num_rows == 2
    # After a restart that saves a plan with another table: the next clean-up removes what only older plans need.
    restarted = Checkpoint(str(tmp_path))
    following = _plan(tables={}).save(restarted)
    for epoch in (4, 5):
        restarted.commit(Commit(epoch, plan=following))
        restarted.publish(epoch)
    restarted.clean()
    assert _files(tmp_path, "plans") == {following}
    assert _files(tmp_path, "tables") == set()


@pytest.mark.parametrize("folder", ["plans", "tables"])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_damaged_plan_is_reported(tmp_path: Path, folder: str, how: str) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    name = _plan().save(checkpoint)
    (file,) = (tmp_path / folder).iterdir()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match=rf"{folder}/{file.name} is damaged \(.*\); restore it"):
        Plan.load(Checkpoint(str(tmp_path)), name)


def test_a_restart_compares_with_the_plan_of_the_commit(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    plan = _plan(more="CREATE QUERY gone AS SELECT v FROM s;")
    commit = Commit(7, plan=plan.save(checkpoint))
    now = _plan(more="CREATE QUERY new AS SELECT ts FROM s;")
    queries = {query.name: query for query in now.queries}
    found = Resumption.of(Checkpoint(str(tmp_path)), commit, queries)
    assert found == Resumption(7, added=("new",), removed=("gone",))
    assert Resumption.of(checkpoint, Commit(-1), queries) is None
