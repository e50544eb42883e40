"""The memory of waiting batches is counted exactly and stays within its limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headgate.operators.batch import Arrival, Batch
from headgate.runtime import Folder, Limits, Network
from headgate.runtime.memory import roots_of
from headgate.runtime.queue import EdgeQueue, Piece, QueuedBatch, QueuedWatermark
from tests.runtime.plans import CRITICAL, above, columns, graph, query, rows, source


def queued(count: int) -> QueuedBatch:
    return QueuedBatch(Batch(rows(count), Arrival.at(0.0, count)), 1, 0, 1, True)


def test_a_train_is_cut_without_copying() -> None:
    queue = EdgeQueue()
    waiting = queued(100)
    queue.put(waiting)
    assert waiting.batch is not None
    (piece,) = queue.take(30)
    assert isinstance(piece, Piece)
    assert (piece.start, piece.stop, piece.last) == (0, 30, False)
    batch = waiting.batch.rows
    assert roots_of(batch.slice(piece.start, piece.rows)) == roots_of(batch)
    (rest,) = queue.take()
    assert isinstance(rest, Piece)
    assert (rest.start, rest.stop, rest.last) == (30, 100, True)
    assert not queue


def test_watermarks_are_never_overtaken() -> None:
    queue = EdgeQueue()
    queue.put(queued(3))
    assert queue.put_watermark(QueuedWatermark(1, 0.0))
    assert not queue.put_watermark(QueuedWatermark(1, 0.0))
    queue.put(queued(4))
    assert queue.put_watermark(QueuedWatermark(2, 0.0))
    assert (queue.rows, queue.watermarks, queue.waiting) == (7, 2, 9)
    train = queue.take(5)
    assert [item.rows if isinstance(item, Piece) else item.time for item in train] == [3, 1, 2]
    assert [item.rows if isinstance(item, Piece) else item.time for item in queue.take()] == [2, 2]


def test_a_fork_counts_once_and_is_freed_with_its_last_reader() -> None:
    s = source()
    batch = rows(1000)
    network = Network(graph(*(query(f"q{n}", columns(above(s, n), 2)) for n in range(5))), "hr:rows=1000")
    network.push("s", batch)
    assert network.memory_bytes == batch.get_total_buffer_size()
    network.run()
    for name in network.queries:
        network.take(name)
    assert network.memory_bytes == 0


def test_a_slice_counts_as_what_it_keeps_alive() -> None:
    big = rows(10_000)
    network = Network(graph(query("q", above(source(), 5))), "fifo")
    network.push("s", big.slice(0, 10))
    assert network.memory_bytes == big.get_total_buffer_size()


def test_a_column_of_a_message_counts_as_the_message() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows(1).schema) as writer:
        writer.write_batch(rows(1000))
    (batch,) = pa.ipc.open_stream(sink.getvalue()).read_all().to_batches()
    assert sum(size for _, size in roots_of(batch.select([2]))) >= batch.nbytes


def test_results_share_what_their_rows_share() -> None:
    batch = rows(1000)
    network = Network(graph(query("a", source()), query("b", columns(source(), 2))), "fifo")
    network.push("s", batch)
    network.run()
    assert network.memory_bytes == batch.get_total_buffer_size()


def test_the_coldest_batches_go_first(tmp_path: Path) -> None:
    s, t = source("s"), source("t")
    size = rows(1000).get_total_buffer_size()
    network = Network(
        graph(query("urgent", columns(above(s, 5), 2), CRITICAL), query("later", columns(above(t, 5), 2))),
        "fifo",
        limits=Limits(memory=int(5.5 * size)),
        store=Folder(tmp_path),
    )
    for seed in range(4):
        network.push("s", rows(1000, seed, seed * 100.0))
    for seed in range(4):
        network.push("t", rows(1000, seed, seed * 100.0))
    figures = network.metrics()["queries"]
    assert figures["urgent"]["waiting_bytes"] == 4 * size
    assert figures["later"]["waiting_bytes"] < 2 * size
    network.run()
    assert sum(r.rows.num_rows for r in network.take("urgent")) == sum(
        int((rows(1000, seed).column(2).to_numpy() > 5).sum()) for seed in range(4)
    )
    network.take("later")
    assert network.memory_bytes == 0
    assert list(tmp_path.iterdir()) == []


def test_a_burst_stays_within_the_limit() -> None:
    limit = 200_000
    network = Network(
        graph(query("q", columns(above(source(), -1), 0, 2))), "fifo:rows=300", limits=Limits(memory=limit)
    )
    most = 0
    for seed in range(80):
        network.push("s", rows(1000, seed, seed * 100.0))
        most = max(most, network.memory_bytes)
    while not network.run(0.001).done:
        most = max(most, network.memory_bytes)
    assert most <= limit
    times = [v for r in network.take("q") for v in r.rows.column(0).cast(pa.int64()).to_pylist()]
    assert len(times) == 80_000
    assert times == sorted(times)


def test_a_full_disk_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    network = Network(graph(query("q", source())), "fifo", limits=Limits(memory=1000), store=Full(tmp_path))
    for seed in range(5):
        network.push("s", rows(1000, seed, seed * 100.0))
    assert "no space left on device" in network.metrics()["memory"]["trouble"]
    assert "rows stay in memory" in caplog.text
    network.run()
    assert sum(r.rows.num_rows for r in network.take("q")) == 5000


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="the limit memory is 0; give a number above zero"):
        Limits(memory=0)


def test_rows_without_columns_survive_spilling() -> None:
    network = Network(graph(query("q", columns(above(source(), 50)))), "fifo:rows=9", limits=Limits(memory=1))
    network.push("s", rows(500, 3))
    network.run()
    wanted = int((np.asarray(rows(500, 3).column(2)) > 50).sum())
    assert sum(r.rows.num_rows for r in network.take("q")) == wanted


def test_a_train_leaves_what_is_younger_than_another_queue() -> None:
    queue = EdgeQueue()
    for moment in (1.0, 2.0, 3.0):
        queue.put(QueuedBatch(Batch(rows(5), Arrival.at(moment, 5)), 1, 0, 1, True))
        queue.put_watermark(QueuedWatermark(int(moment), moment))
    # The first goes in any case, with the watermark behind it.
    assert [item.rows if isinstance(item, Piece) else item.time for item in queue.take(until=0.0)] == [5, 1]
    assert [item.rows if isinstance(item, Piece) else item.time for item in queue.take(until=3.0)] == [5, 2, 5, 3]


class Full(Folder):
    """A store without any room."""

    def write(self, key: str, batches: object) -> None:
        raise OSError(28, "no space left on device")


class Watched(Folder):
    """A store that calls `during` in every write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.during: Callable[[], None] = lambda: None
        self.writes = 0

    def write(self, key: str, batches: Sequence[pa.RecordBatch]) -> None:
        self.writes += 1
        self.during()
        super().write(key, batches)


def test_spilled_batches_are_written_without_the_lock(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    network = Network(
        graph(query("q", columns(above(source(), -1), 2))),
        "fifo:rows=100",
        limits=Limits(memory=10_000, query_memory=5_000),
        store=store,
    )
    locked: list[bool] = []
    store.during = lambda: locked.append(network._control.lock.locked())
    for seed in range(5):
        network.push("s", rows(1000, seed, seed * 100.0))
        network.run(0.0)
    network.run()
    assert locked
    assert not any(locked)
    assert sum(r.rows.num_rows for r in network.take("q")) == 5000


def test_a_snapshot_during_a_spill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    network = Network(graph(query("q", source())), "fifo", limits=Limits(memory=1000), store=store)
    manifests = []

    def snapshot() -> None:
        store.during = lambda: None
        manifests.append(network.snapshot())

    store.during = snapshot
    network.push("s", rows(1000))
    assert network.memory_bytes == 0
    # Written by the snapshot and by the spill, of which one file is discarded.
    assert store.writes == 2
    assert len(list(tmp_path.iterdir())) == 1
    restored = Network(graph(query("q", source())), "fifo", store=Folder(tmp_path, keep=True))
    restored.restore(manifests[0])
    for each in (restored, network):
        each.run()
        assert sum(r.rows.num_rows for r in each.take("q")) == 1000


def test_a_batch_that_is_read_to_its_end_during_its_spill_leaves_no_file(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    network = Network(graph(query("q", source())), "fifo", limits=Limits(memory=1000), store=store)
    taken: list[int] = []

    def work() -> None:
        store.during = lambda: None
        network.run()
        taken.append(sum(r.rows.num_rows for r in network.take("q")))

    store.during = work
    network.push("s", rows(1000))
    assert taken == [1000]
    assert network.memory_bytes == 0
    assert list(tmp_path.iterdir()) == []


def test_results_that_cannot_be_read_back_are_not_lost(tmp_path: Path) -> None:
    class Broken(Folder):
        broken = False

        def read(self, key: str, index: int) -> pa.RecordBatch:
            if self.broken:
                raise OSError(5, "input/output error")
            return super().read(key, index)

    store = Broken(tmp_path)
    network = Network(graph(query("q", source())), "fifo", limits=Limits(memory=1000), store=store)
    for seed in range(3):
        network.push("s", rows(1000, seed, seed * 100.0))
    network.run()
    store.broken = True
    with pytest.raises(OSError, match="input/output error"):
        network.take("q")
    store.broken = False
    assert sum(r.rows.num_rows for r in network.take("q")) == 3000
    assert network.memory_bytes == 0


def test_a_full_disk_does_not_fail_a_query_above_its_limit(tmp_path: Path) -> None:
    network = Network(graph(query("q", source())), "fifo", limits=Limits(query_memory=1000), store=Full(tmp_path))
    network.push("s", rows(1000))
    assert "no space left on device" in network.metrics()["memory"]["trouble"]
    network.run()
    assert sum(r.rows.num_rows for r in network.take("q")) == 1000
