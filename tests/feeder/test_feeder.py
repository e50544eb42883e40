"""The feeder: rows by seed, batches, rates that change, lag; and what it writes, read by others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from headgate.feeder import (
    ARRIVALS,
    WORKLOADS,
    Constant,
    Feed,
    Feeder,
    FeederProcess,
    FeedError,
    FolderTarget,
    Poisson,
    replay,
    workload,
)
from headgate.feeder.json_text import json_texts
from headgate.feeder.workloads.readings import Readings
from headgate.sql import Catalog
from tests.waiting import wait_until


class Kept:
    """A target that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: dict[str, list[pa.Table]] = {}

    def send(self, stream: str, rows: pa.Table) -> None:
        self.batches.setdefault(stream, []).append(rows)

    def close(self) -> None:
        pass

    def rows(self, stream: str) -> pa.Table:
        return pa.concat_tables(self.batches[stream]).combine_chunks()


def fed(name: str, steps: list[float], seed: int = 3, arrivals: str = "poisson", every: float = 0.1) -> Kept:
    """What a feeder sends if it is called at these moments."""
    kept = Kept()
    feeder = Feeder(kept, workload(name, 2000.0, arrivals, seed), seed=seed, every=every, start=0.0, seconds=steps[-1])
    for moment in steps:
        feeder.advance(moment)
    return kept


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_depend_on_the_seed_alone(name: str, arrivals: str) -> None:
    often = fed(name, [n / 20 for n in range(1, 101)], arrivals=arrivals)
    seldom = fed(name, [0.3, 3.7, 5.0], arrivals=arrivals, every=0.25)
    other = fed(name, [5.0], seed=4, arrivals=arrivals)
    for stream in WORKLOADS[name].shares:
        assert len(often.batches[stream]) > len(seldom.batches[stream])
        assert often.rows(stream).equals(seldom.rows(stream))
        assert not often.rows(stream).equals(other.rows(stream))


@pytest.mark.parametrize("name", WORKLOADS)
def test_rates_and_order(name: str) -> None:
    kept = fed(name, [10.0])
    for stream, share in WORKLOADS[name].shares.items():
        rows = kept.rows(stream)
        assert rows.num_rows == pytest.approx(20_000 * share, abs=5 * np.sqrt(20_000 * share))
        times = rows["ts"].cast(pa.int64()).to_numpy() / 1e6
        assert (np.diff(times) >= 0).all()
        assert times[-1] <= 10.0


@pytest.mark.parametrize("name", WORKLOADS)
def test_declarations_are_accepted(name: str, tmp_path: Path) -> None:
    catalog = Catalog()
    for feed in workload(name):
        catalog.execute(feed.declaration("parquet", {"path": str(tmp_path / feed.stream)}))
        assert catalog.streams[feed.stream].schema.arrow() == feed.maker.schema


def test_a_row_is_sent_with_the_first_batch_after_it_is_due() -> None:
    kept = Kept()
    feeder = Feeder(kept, [Feed("s", Readings(), Constant(10.0))], every=0.5, start=0.0)
    assert feeder.advance(0.49) == 0.5
    assert not kept.batches
    assert feeder.advance(0.5) == 1.0
    assert [batch.num_rows for batch in kept.batches["s"]] == [5]
    # Late by three batches: one that has all rows that are due.
    assert feeder.advance(2.1) == 2.5
    assert [batch.num_rows for batch in kept.batches["s"]] == [5, 15]


def test_batches_of_streams_are_spread() -> None:
    feeds = [Feed(f"s{n}", Readings(), Constant(100.0)) for n in range(4)]
    feeder = Feeder(Kept(), feeds, every=1.0)
    due = [feeder.advance(0.0)]
    while due[-1] is not None and due[-1] < 2.0:
        due.append(feeder.advance(due[-1]))
    assert due == [1.0, 1.25, 1.5, 1.75, 2.0]


def test_rates_change_while_it_runs() -> None:
    kept = Kept()
    feeder = Feeder(kept, [Feed("s", Readings(), Poisson(1000.0))], seed=1, every=0.1, start=0.0)
    counts = []
    for second, rate in enumerate([1000.0, 5000.0, 0.0, 200.0, 1000.0]):
        feeder.set_rate("s", rate)
        before = sum(batch.num_rows for batch in kept.batches.get("s", []))
        for tenth in range(1, 11):
            feeder.advance(second + tenth / 10)
        counts.append(sum(batch.num_rows for batch in kept.batches["s"]) - before)
        assert counts[-1] == pytest.approx(rate, abs=4 * np.sqrt(rate))
    assert counts[2] == 0
    times = kept.rows("s")["ts"].cast(pa.int64()).to_numpy() / 1e6
    assert (np.diff(times) >= 0).all()
    assert np.histogram(times, range(6))[0].tolist() == counts


def test_a_feeder_keeps_its_schedule_and_ends(tmp_path: Path) -> None:
    feeder = Feeder(FolderTarget(tmp_path), workload("auctions", 20_000.0), seed=1, every=0.05, seconds=0.5)
    progress = feeder.run()
    assert progress.rows == sum(pq.read_table(tmp_path / stream).num_rows for stream in ("persons", "auctions", "bids"))
    assert progress.rows == pytest.approx(10_000, rel=0.1)
    assert 0 <= progress.lag <= progress.worst_lag
    assert progress.seconds >= 0.5


def test_lag_is_reported() -> None:
    now = [0.0]

    class Slow(Kept):
        def send(self, stream: str, rows: pa.Table) -> None:
            super().send(stream, rows)
            now[0] += 0.4

    feeder = Feeder(Slow(), [Feed("s", Readings(), Constant(100.0))], every=0.1, clock=lambda: now[0])
    now[0] = 100.0
    feeder._begin()
    now[0] = 100.1
    feeder.advance(0.1)
    assert feeder.progress().lag == pytest.approx(0.4)
    feeder.advance(now[0] - 100.0)
    assert feeder.progress().streams["s"].rows == 50
    assert feeder.progress().worst_lag == pytest.approx(0.4)


def test_another_process_feeds(tmp_path: Path) -> None:
    process = FeederProcess(make_feeder, str(tmp_path))
    process.start()
    wait_until(lambda: process.progress().rows >= 100)
    process.stop()
    assert pq.read_table(tmp_path / "s").num_rows == process.progress().rows


def make_feeder(folder: str) -> Feeder:
    return Feeder(FolderTarget(folder), [Feed("s", Readings(), Constant(1000.0))], every=0.02, stamp="sent")


def test_a_target_that_fails_ends_the_feeder_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file, not a folder")
    feeder = Feeder(FolderTarget(tmp_path), [Feed("s", Readings(), Constant(1000.0))], every=0.01)
    feeder.start()
    with pytest.raises(FeedError, match=r"s: file exists; rows cannot be written there"):
        feeder.wait()


def test_files_appear_complete_and_are_never_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        Feeder(FolderTarget(tmp_path), [Feed("s", Readings(), Constant(1000.0))], every=0.01, seconds=0.03).run()
    names = sorted(path.name for path in (tmp_path / "s").iterdir())
    assert names == [f"{number:09d}.parquet" for number in range(len(names))]
    assert pq.read_table(tmp_path / "s").num_rows == 60


@pytest.mark.parametrize("name", WORKLOADS)
def test_formats_hold_the_same_rows(name: str, tmp_path: Path) -> None:
    for form in ("parquet", "json", "csv"):
        target = FolderTarget(tmp_path / form, form)
        Feeder(target, workload(name, 20_000.0, seed=2), seed=2, start=1e9, seconds=0.2).advance(0.2)
    for stream in WORKLOADS[name].shares:
        rows = pq.read_table(tmp_path / "parquet" / stream)
        lines = [line for path in sorted((tmp_path / "json" / stream).iterdir()) for line in path.open()]
        values = [json.loads(line) for line in lines]
        for column in rows.column_names:
            expected = rows[column]
            if pa.types.is_timestamp(expected.type):
                expected = pc.strftime(expected, format="%Y-%m-%dT%H:%M:%SZ")
            assert [value[column] for value in values] == expected.to_pylist()
        schema = pa.schema({f.name: f.type for f in rows.schema})
        loose = pa.csv.ReadOptions(column_names=schema.names)
        convert = pa.csv.ConvertOptions(column_types=schema)
        form = ds.CsvFileFormat(read_options=loose, convert_options=convert)
        assert ds.dataset(tmp_path / "csv" / stream, format=form, schema=schema).to_table().equals(rows)


def test_json_texts_are_json() -> None:
    table = pa.table(
        {
            'a "name"': ['x"y', "back\\slash", "ä€", None],
            "b": pa.array([1.5, None, -0.0, 1e300]),
            "c": [True, False, None, True],
            "d": pa.array([0, None, 1, 2], pa.date32()),
        }
    )
    read = [json.loads(text) for text in json_texts(table, "\n").to_pylist()]
    assert [row['a "name"'] for row in read] == table['a "name"'].to_pylist()
    assert [row["b"] for row in read] == table["b"].to_pylist()
    assert [row["d"] for row in read] == ["1970-01-01", None, "1970-01-02", "1970-01-03"]
    odd = pa.table({"a": ["line\nbreak", "x"], "b": [[1], [2, 3]], "c": [float("nan"), 1.0]})
    assert [json.loads(text) for text in json_texts(odd).to_pylist()] == [
        {"a": "line\nbreak", "b": [1], "c": "NaN"},
        {"a": "x", "b": [2, 3], "c": 1.0},
    ]


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_trace_is_replayed_at_any_speed(form: str, tmp_path: Path) -> None:
    seconds = np.array([5.0, 5.5, 5.25, 9.0, 25.0])
    micros = pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"n": [1, 2, 3, 4, 5], "ts": micros})
    path = tmp_path / f"trace.{form}"
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "csv":
        pa.csv.write_csv(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    feed = replay(path, speed=10.0)
    assert feed.stream == "trace"
    # A row whose time is before that of its predecessor arrives with it.
    assert np.asarray(feed.arrivals.moments) == pytest.approx([0.0, 0.05, 0.05, 0.4, 2.0])  # type: ignore[attr-defined]
    kept = Kept()
    feeder = Feeder(kept, [feed], every=0.1, start=100.0)
    while (due := feeder.advance(1e9)) is not None:
        feeder.advance(due)
    assert kept.rows("trace")["n"].to_pylist() == [1, 2, 3, 4, 5]
    assert kept.rows("trace")["ts"].cast(pa.timestamp("us", "UTC")).to_pylist() == micros.to_pylist()
    kept = Kept()
    Feeder(kept, [replay(path, speed=10.0, stream="s", restamp=True)], every=0.1, start=100.0).advance(1e9)
    restamped = kept.rows("s")["ts"].cast(pa.int64()).to_numpy() / 1e6
    assert restamped == pytest.approx([100.0, 100.05, 100.05, 100.4, 102.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: replay(p / "a.txt"), r"a\.txt: the ending names no format"),
        (lambda p: replay(p / "a.parquet"), r"a\.parquet: no such file; give a recorded file"),
        (lambda p: replay(p / "b.csv"), r"b\.csv has no timestamp column; name the column .* \(it has x\)"),
        (lambda p: replay(p / "b.csv", time_column="y"), r"b\.csv has no column y; name the column"),
        (lambda p: replay(p / "b.csv", speed=0), "the speed is 0; give a factor above zero"),
        (lambda p: workload("sensor"), "there is no workload sensor; there are: sensors, auctions, packets, readings"),
        (lambda p: workload("sensors", arrivals="x"), "there are no arrivals x; there are: poisson, bursty, periodic"),
        (lambda p: FolderTarget(p, "avro"), "there is no file format avro; there are: parquet, json, csv"),
        (lambda p: Feeder(Kept(), [], every=0), "every is 0; give the seconds between two batches, above zero"),
        (lambda p: Feeder(Kept(), []).set_rate("s", 1), "there is no stream s; there are: "),
    ],
)
def test_what_cannot_be_fed_is_refused(make: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("x\n1\n")
    with pytest.raises(FeedError, match=message):
        make(tmp_path)  # type: ignore[operator]
