"""Stands in for the driver in tests of hosts: sends epochs to a real host without Spark, commits, collects results."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from headgate.graph.shared import SharedGraph
from headgate.runtime.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.host_client import HostLost, close_host, ensure_host, prepare_hosts
from headgate.spark.lanes import _columns
from headgate.spark.messages import EpochAnswer, EpochRequest, HostAddress
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.processes import is_alive
from headgate.spark.required_columns import required_columns
from headgate.spark.task import bring
from headgate.sql import Catalog
from tests.spark.inline import packed
from tests.waiting import wait_until


class HostDriver:
    """A driver for the queries of a script over one stream `s`."""

    def __init__(self, root: Path, script: str, **plan: object) -> None:
        catalog = Catalog()
        catalog.execute(script)
        self.queries = tuple(dict(catalog.queries).values())
        self.packing = Packing({"s": _columns(catalog.streams["s"], required_columns(self.queries)["s"])})
        self.checkpoint = Checkpoint(str(root / "ck"))
        self.plan = Plan(self.queries, "cqc", packings={"main@1": self.packing}, **plan)  # type: ignore[arg-type]
        self.plan_name = self.plan.save(self.checkpoint)
        self.run = self.checkpoint.identity()
        self.token = uuid.uuid4().hex
        self.address: HostAddress | None = None
        self.memory = 0
        self.restart()
        self.results: dict[str, list[pa.Table]] = {query.name: [] for query in self.queries}
        self.failed: dict[str, str] = {}
        self.restored = 0
        # As an engine does: a host is there at once.
        prepare_hosts()

    def restart(self) -> None:
        """Continues as a new driver does."""
        self.generation = self.checkpoint.next_generation()
        self.number = 0
        self.commit = self.checkpoint.newest() or Commit(-1)

    def request(self, rows: bool, finish: bool = False, budget: float | None = None) -> EpochRequest:
        self.number += 1
        return EpochRequest(
            run=self.run,
            token=self.token,
            fence=(self.generation, self.number),
            checkpoint=self.checkpoint.uri,
            epoch=self.commit.epoch + 1,
            after=self.commit.epoch,
            attempt=uuid.uuid4().hex[:8],
            plan=self.plan_name,
            packing="main@1" if rows else None,
            arrived=time.time(),
            budget=budget,
            finish=finish,
            host=self.address,
            owner=os.getpid(),
            continues=self.commit.snapshots[0].file if self.commit.snapshots else "",
            memory=self.memory,
        )

    def packed(self, rows: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        return iter([packed(self.packing, "s", each) for each in rows])

    def accept(self, answer: EpochAnswer) -> None:
        """Commits an answer and takes its results."""
        self.address = answer.host
        self.restored += answer.restored
        self.failed.update(answer.failed)
        for name, place in answer.results:
            self.results[name].append(self.checkpoint.read(place))
            if name in answer.inline:
                assert pa.ipc.open_stream(answer.inline[name]).read_all() == self.results[name][-1]
        self.commit = Commit(
            answer.epoch,
            {"main": answer.epoch},
            snapshots=(answer.snapshot,),
            files=answer.files,
            results=answer.results,
            failures=answer.failures,
            plan=self.plan_name,
        )
        self.checkpoint.commit(self.commit)
        self.checkpoint.clean(keep=1)

    def epoch(
        self, *rows: pa.Table, finish: bool = False, budget: float | None = None, attempts: int = 4
    ) -> EpochAnswer:
        """One epoch with these rows; repeated if the host is lost."""
        for attempt in range(attempts):
            request = self.request(bool(rows), finish, budget)
            try:
                answer = EpochAnswer.unpack(bring(request, str(attempt), self.packed(rows)))
            except HostLost:
                if attempt == attempts - 1:
                    raise
                continue
            self.accept(answer)
            return answer
        raise AssertionError("no attempts")

    def rows(self) -> dict[str, list[str]]:
        """All results so far, as sorted texts."""
        return {
            name: sorted(repr(row) for table in tables for row in table.to_pylist())
            for name, tables in self.results.items()
        }

    # The host's processes -----------------------------------------------------------------------------------

    def ensure(self) -> HostAddress:
        """Starts the host, if it does not run."""
        self.address = ensure_host(self.run, 0, self.token, os.getpid())
        return self.address

    @property
    def child(self) -> int:
        """The network's process; waits until there is one."""
        assert self.address is not None
        path = Path(f"/proc/{self.address.pid}/task/{self.address.pid}/children")
        wait_until(lambda: bool(path.read_text().split()))
        return int(path.read_text().split()[0])

    def kill_child(self) -> None:
        """Kills the network's process and waits until it is gone."""
        child = self.child
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not is_alive(child))

    def kill_supervisor(self) -> None:
        """Kills the supervisor and waits until it is gone."""
        assert self.address is not None
        os.kill(self.address.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(self.address.pid))  # type: ignore[union-attr]

    def close(self) -> None:
        if self.address is not None:
            with suppress(OSError):
                close_host(self.address, self.token)


def plain(driver: HostDriver, batches: Sequence[pa.Table], without: Sequence[str] = ()) -> dict[str, list[str]]:
    """The results of the same rows in a network in this process, one batch an epoch."""
    graph = SharedGraph()
    for query in driver.queries:
        if query.name not in without:
            graph.add(query)
    network = Network(graph, "fifo")
    for batch in batches:
        for stream, rows, _, _ in driver.packing.unpack(packed(driver.packing, "s", batch)):
            network.push(stream, rows)
        network.run()
    network.finish()
    network.run()
    return {
        name: sorted(repr(row) for result in network.take(name) for row in result.rows.to_pylist())
        for name in network.queries
    }
