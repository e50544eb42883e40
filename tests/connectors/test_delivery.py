"""Results reach the sinks without passing the driver, except those that it writes itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.connectors.memory import MemoryWriter
from headgate.connectors.registry import RegisteredSinks, connectors, dead_letters, open_sink
from headgate.graph.queries import Query, Sink
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.delivery import Delivered, Delivery, HostWriters
from headgate.spark.messages import DEAD, EpochAnswer, Place
from headgate.spark.publisher import Publisher
from headgate.spark.resident import DEAD_SCHEMA
from headgate.spark.results import HostWriter, SinkError, Writer
from headgate.spark.task import bring
from headgate.sql import Catalog
from tests.arriving import arrive_json
from tests.connectors.recorder import Recorder
from tests.spark.host_driver import HostDriver

KEPT = 3
TABLE = pa.table({"k": ["a", "b", "a", "c", "a"], "v": pa.array(range(5), pa.int64())})
UPDATES = pa.table({"n": [5, 6], "k": ["a", "b"], "deleted": [False, True]})
LARGE = pa.table({"k": ["x" * 100] * 5000, "v": pa.array(range(5000), pa.int64())})
MALFORMED = pa.RecordBatch.from_pydict({"stream": ["s", "s"], "reason": ["why"] * 2, "row": ["{", "["]}, DEAD_SCHEMA)
SCRIPT = """
CREATE STREAM s (k STRING, v BIGINT) USING rate;
CREATE QUERY folders INTO parquet OPTIONS (path '{root}/folders') AS SELECT k, v FROM s;
CREATE QUERY plain AS SELECT k, v FROM s;
CREATE QUERY few INTO memory OPTIONS (rows '2') INTO noop AS SELECT k, v FROM s;
CREATE QUERY shown INTO console INTO csv OPTIONS (path '{root}/shown') AS SELECT k, v FROM s;
CREATE QUERY sent INTO delta OPTIONS (path '{root}/sent') AS SELECT k, v FROM s;
CREATE QUERY counts INTO console AS
SELECT count(*) AS n FROM s GROUP BY k;
CREATE QUERY saved INTO xml OPTIONS (path '{root}/saved', rowTag 'row') AS SELECT k, v FROM s;
"""


class Reading(Checkpoint):
    """Notes which places of the outbox are read."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.opened: list[Place] = []

    def read(self, place: Place) -> pa.Table:
        self.opened.append(place)
        return super().read(place)


class Setting:
    """A checkpoint, the queries of the script, and their sinks in a driver."""

    def __init__(self, root: Path, spark: Any = None, script: str = SCRIPT) -> None:
        catalog = Catalog(connectors=connectors())
        catalog.execute(script.format(root=root))
        self.root = root
        self.queries: dict[str, Query] = dict(catalog.queries)
        self.checkpoint = Reading(str(root / "ck"))
        self.memory: dict[str, MemoryWriter] = {}
        self.published: list[int] = []
        self.spark = spark or Recorder()
        self.delivery = Delivery(
            f"{RegisteredSinks.__module__}:{RegisteredSinks.__name__}", str(root), KEPT, str(root / "dead")
        )

    def publisher(self, *names: str, threaded: bool = False) -> Publisher:
        """A new driver's publisher, with the sinks of some queries."""
        found = Publisher(
            self.checkpoint,
            self._open,
            dead_letters(str(self.root / "dead"), "run1"),
            self.published.append,
            threaded=threaded,
        )
        for name in names:
            memory = any(sink.format == "memory" for sink in self.queries[name].sinks)
            found.open(self.queries[name], () if memory else (Sink("memory", {"rows": str(KEPT)}),))
        return found

    def _open(self, query: Query, sink: Sink) -> Writer:
        writer = open_sink(self.spark, query, sink, "run1")
        if isinstance(writer, MemoryWriter):
            self.memory[query.name] = writer
        return writer

    def deliver(
        self, epoch: int, *results: tuple[str, pa.Table], dead: tuple[pa.RecordBatch, ...] = (), attempt: str = "a1"
    ) -> Delivered:
        """What a host does with results."""
        writers = HostWriters(self.delivery, self.checkpoint, "run1")
        return writers.deliver([(self.queries[name], table) for name, table in results], dead, epoch, attempt)

    def commit(self, epoch: int, delivered: Delivered) -> Commit:
        commit = Commit(
            epoch,
            results=delivered.results,
            newest=delivered.newest,
            unwritten=delivered.unwritten,
            written=delivered.written,
        )
        self.checkpoint.commit(commit)
        return commit

    def files(self, folder: str, ending: str) -> list[Path]:
        return sorted((self.root / folder).glob(f"*.{ending}"))


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


@pytest.mark.parametrize(
    ("query", "table", "whole", "newest"),
    [
        ("folders", TABLE, 0, KEPT),
        ("plain", TABLE, 0, KEPT),
        ("few", TABLE, 0, 2),
        ("shown", TABLE, 5, 0),
        ("sent", TABLE, 5, KEPT),
        ("sent", TABLE.slice(0, 2), 2, 2),
        ("counts", UPDATES, 2, 0),
        ("counts", pa.concat_tables([UPDATES] * 3), 6, 0),
    ],
)
def test_the_outbox_has_what_the_sinks_of_a_query_need(
    setting: Setting, query: str, table: pa.Table, whole: int, newest: int
) -> None:
    publisher = setting.publisher(query)
    delivered = setting.deliver(0, (query, table))
    publisher.close()
    rows = [[setting.checkpoint.read(place) for _, place in part] for part in (delivered.results, delivered.newest)]
    assert [sum(each.num_rows for each in part) for part in rows] == [whole, newest]
    assert all(part == [] or part[0] == table.slice(table.num_rows - part[0].num_rows) for part in rows)
    assert delivered.unwritten == ()
    assert sum(file.rows for file in delivered.written) == (table.num_rows if query in ("folders", "shown") else 0)
    assert delivered.rows == {query: table.num_rows}
    # Few rows are part of the answer: those that the driver needs.
    found = pa.ipc.open_stream(delivered.inline[query]).read_all()
    assert found == (rows[1] or rows[0])[0]
    if delivered.results and whole == newest:
        assert delivered.results == delivered.newest


def test_many_rows_are_not_part_of_the_answer(setting: Setting) -> None:
    setting.publisher("shown", "sent")
    delivered = setting.deliver(0, ("shown", LARGE), ("sent", LARGE))
    assert set(delivered.inline) == {"sent"}
    assert pa.ipc.open_stream(delivered.inline["sent"]).read_all() == LARGE.slice(5000 - KEPT)


def test_without_a_delivery_the_driver_writes_everything(setting: Setting) -> None:
    writers = HostWriters(None, setting.checkpoint, "run1")
    delivered = writers.deliver([(setting.queries["folders"], TABLE)], [MALFORMED], 0, "a")
    assert delivered.results == tuple(each for each in delivered.unwritten if each[0] != DEAD)
    publisher = setting.publisher("folders")
    publisher.put(setting.commit(0, delivered), {name: [data] for name, data in delivered.inline.items()})
    assert pq.read_table(setting.files("folders", "parquet")[0]) == TABLE
    assert setting.memory["folders"].table() == TABLE.slice(5 - KEPT)
    assert len(setting.files("dead", "json")) == 1


def test_the_driver_reads_nothing_that_hosts_and_executors_write(setting: Setting) -> None:
    publisher = setting.publisher("folders", "sent")
    delivered = setting.deliver(0, ("folders", LARGE), ("sent", LARGE))
    publisher.put(setting.commit(0, delivered), {name: [data] for name, data in delivered.inline.items()})
    assert setting.checkpoint.opened == []
    assert setting.published == [0]
    assert setting.spark.saved == f"{setting.root}/sent"
    assert setting.spark.format_ == "delta"
    assert pq.read_table(setting.files("folders", "parquet")[0]) == LARGE
    assert setting.memory["folders"].table() == setting.memory["sent"].table() == LARGE.slice(5000 - KEPT)


def test_a_restart_publishes_from_the_commits_alone(setting: Setting) -> None:
    setting.publisher("folders", "sent", "shown")
    for epoch in (0, 1):
        tables = [(name, LARGE.slice(epoch * 100, 100)) for name in ("folders", "sent", "shown")]
        setting.commit(epoch, setting.deliver(epoch, *tables))
    # The query `shown` has been dropped: its file is committed, and published all the same.
    publisher = setting.publisher("folders", "sent")
    assert publisher.republish() == 2
    assert setting.published == [0, 1]
    assert set(setting.checkpoint.opened) == {
        place for commit in setting.checkpoint.commits() for _, place in commit.newest
    }
    rows = [value for file in setting.files("folders", "parquet") for value in pq.read_table(file)["v"].to_pylist()]
    assert rows == list(range(200))
    assert len(setting.files("shown", "csv")) == 2
    assert setting.publisher("folders").republish() == 0


def test_an_epoch_that_was_published_and_not_recorded_is_published_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = setting.publisher("folders", threaded=False)
    delivered = setting.deliver(0, ("folders", TABLE))

    def crash(self: Checkpoint, epoch: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "publish", crash)
        with pytest.raises(KeyboardInterrupt):
            publisher.put(setting.commit(0, delivered), {name: [data] for name, data in delivered.inline.items()})
    assert setting.publisher("folders").republish() == 1
    assert [pq.read_table(file) for file in setting.files("folders", "parquet")] == [TABLE]


def test_attempts_that_were_not_committed_leave_nothing(setting: Setting) -> None:
    publisher = setting.publisher("folders")
    setting.deliver(0, ("folders", LARGE))
    delivered = setting.deliver(0, ("folders", TABLE), attempt="a2")
    setting.deliver(1, ("folders", TABLE))
    staging = setting.root / "folders" / ".headgate" / "folders-run1"
    assert len(list(staging.iterdir())) == 3
    publisher.put(setting.commit(0, delivered), {})
    assert [path.name[:12] for path in staging.iterdir()] == ["000000001-a1"]
    publisher.close()
    assert [pq.read_table(file) for file in setting.files("folders", "parquet")] == [TABLE]


def test_what_a_host_cannot_write_the_driver_writes(setting: Setting) -> None:
    # The folder is made by the driver; this host has none.
    delivered = setting.deliver(0, ("folders", TABLE), ("shown", TABLE))
    assert delivered.written == ()
    assert [name for name, _ in delivered.unwritten] == ["folders", "shown"]
    assert delivered.unwritten[1:] == delivered.results
    publisher = setting.publisher("folders", "shown")
    publisher.put(setting.commit(0, delivered), {name: [data] for name, data in delivered.inline.items()})
    assert pq.read_table(setting.files("folders", "parquet")[0]) == TABLE
    assert len(setting.files("shown", "csv")) == 1
    again = setting.deliver(1, ("folders", TABLE))
    assert [file.query for file in again.written] == ["folders"]
    assert again.unwritten == ()


def test_a_folder_that_nobody_can_write_stops_publication_and_loses_nothing(setting: Setting) -> None:
    publisher = setting.publisher("folders", threaded=True)
    staging = setting.root / "folders" / ".headgate"
    (staging / "folders-run1").rmdir()
    staging.rmdir()
    staging.write_text("a file where a folder should be")
    for epoch in (0, 1):
        publisher.put(setting.commit(epoch, setting.deliver(epoch, ("folders", TABLE))), {})
    publisher.close()
    assert isinstance(publisher.failure, SinkError)
    assert str(publisher.failure).startswith(f"query folders: folder {setting.root}/folders cannot be opened: ")
    assert str(publisher.failure).endswith("are published at the next start")
    staging.unlink()
    assert setting.publisher("folders").republish() == 2
    assert [pq.read_table(file) for file in setting.files("folders", "parquet")] == [TABLE, TABLE]


def test_several_sinks_of_a_query_in_one_folder(tmp_path: Path) -> None:
    into = f"OPTIONS (path '{tmp_path}/out')"
    by_key = f"OPTIONS (path '{tmp_path}/out', partitionBy 'k')"
    setting = Setting(
        tmp_path,
        script=f"""CREATE STREAM s (k STRING, v BIGINT) USING rate;
        CREATE QUERY q INTO parquet {into} INTO json {into} INTO parquet {by_key} INTO parquet {into}
        AS SELECT k, v FROM s""",
    )
    publisher = setting.publisher("q")
    delivered = setting.deliver(0, ("q", TABLE))
    publisher.put(setting.commit(0, delivered), {name: [data] for name, data in delivered.inline.items()})
    [whole] = setting.files("out", "parquet")
    assert pq.ParquetFile(whole).read() == TABLE
    [lines] = setting.files("out", "json")
    assert lines.read_text().count('{"k":') == 5
    assert {f.parent.name: pq.ParquetFile(f).metadata.num_rows for f in (tmp_path / "out").glob("*/*.parquet")} == {
        "k=a": 3,
        "k=b": 1,
        "k=c": 1,
    }


def test_dead_letters(setting: Setting) -> None:
    publisher = setting.publisher()
    for epoch in (0, 1):
        delivered = setting.deliver(epoch, dead=(MALFORMED, MALFORMED))
        assert delivered.malformed == {"s": 4}
        assert delivered.rows == {}
        # The driver makes the folder with the first of them; hosts write from then on.
        assert (len(delivered.unwritten), len(delivered.written)) == ((1, 0) if epoch == 0 else (0, 1))
        publisher.put(setting.commit(epoch, delivered), {name: [data] for name, data in delivered.inline.items()})
    publisher.close()
    files = setting.files("dead", "json")
    assert [file.name for file in files] == ["rows-run1-000000000.json", "rows-run1-000000001.json"]
    assert all(file.read_text().count('"reason":"why"') == 4 for file in files)
    assert sorted(path.name for path in (setting.root / "dead").iterdir()) == [file.name for file in files]


def test_a_host_process_writes_folders(tmp_path: Path) -> None:
    """Each epoch is done twice: the first answer is lost, with the files that it names."""
    setting = Setting(tmp_path)
    script = f"""CREATE STREAM s (k STRING, v BIGINT) USING parquet OPTIONS (path 'unused');
    CREATE QUERY folders INTO parquet OPTIONS (path '{tmp_path}/folders') AS SELECT k, v FROM s WHERE v > 1"""
    driver = HostDriver(tmp_path / "host", script, delivery=setting.delivery)
    try:
        writer = open_sink(None, driver.queries[0], driver.queries[0].sinks[0], driver.run)
        publisher = setting.publisher()
        for _ in range(3):
            lost = EpochAnswer.unpack(bring(driver.request(rows=True), "0", driver.packed([TABLE])))
            answer = driver.epoch(TABLE)
            assert {file.final for file in lost.written} == {file.final for file in answer.written}
            assert not {file.hidden for file in lost.written} & {file.hidden for file in answer.written}
            assert answer.rows == {"folders": 3}
            assert answer.results == answer.unwritten == ()
            publisher.put(
                Commit(answer.epoch, written=answer.written), {name: [data] for name, data in answer.inline.items()}
            )
        assert isinstance(writer, HostWriter)
        writer.clean(answer.epoch)
        writer.close()
    finally:
        driver.close()
    found = [pq.read_table(file) for file in setting.files("folders", "parquet")]
    assert found == [TABLE.slice(2)] * 3
    assert len(list((tmp_path / "folders").iterdir())) == 3


@pytest.mark.spark
@pytest.mark.slow
def test_executors_write_an_epoch_once_though_it_is_published_twice(spark: Any, tmp_path: Path) -> None:
    setting = Setting(tmp_path, spark)
    publisher = setting.publisher("saved")
    commits = [setting.commit(e, setting.deliver(e, ("saved", LARGE.slice(e * 1000, 1000)))) for e in (0, 1)]
    for commit in (*commits, commits[1]):
        publisher.put(commit, {})
    newest = {place for commit in commits for _, place in commit.newest}
    whole = {place for commit in commits for _, place in commit.results}
    assert set(setting.checkpoint.opened) == newest
    assert not newest & whole
    found = spark.read.format("xml").option("rowTag", "row").schema("v BIGINT").load(f"{tmp_path}/saved")
    assert sorted(row["v"] for row in found.select("v").collect()) == list(range(2000))
    assert setting.memory["saved"].table() == LARGE.slice(2000 - KEPT, KEPT)


@pytest.mark.spark
def test_rows_of_an_engine_pass_the_driver_only_where_it_writes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = Checkpoint.read

    def reading(self: Checkpoint, place: Place) -> pa.Table:
        table = original(self, place)
        read.append(table.num_rows)
        return table

    monkeypatch.setattr(Checkpoint, "read", reading)
    monkeypatch.chdir(tmp_path)
    rows = [{"k": "x" * 50, "v": number} for number in range(5000)]
    arrive_json(tmp_path / "in" / "a.json", rows)
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark, results=2000)
    engine.execute(
        f"""CREATE STREAM s (k STRING, v BIGINT) USING json OPTIONS (path '{tmp_path}/in');
        CREATE QUERY folders INTO parquet OPTIONS (path 'out/folders') AS SELECT k, v FROM s;
        CREATE QUERY saved INTO xml OPTIONS (path '{tmp_path}/out/saved', rowTag 'row') AS SELECT k, v FROM s"""
    )
    engine.run_once()
    assert Counter(read) == Counter([2000, 2000])
    assert {name: figures["published"] for name, figures in engine.metrics()["queries"].items()} == {
        "folders": 5000,
        "saved": 5000,
    }
    written = pq.read_table(tmp_path / "out" / "folders")
    assert sorted(written["v"].to_pylist()) == list(range(5000))
    assert [path.suffix for path in (tmp_path / "out" / "folders").iterdir()] == [".parquet"]
    for name in ("folders", "saved"):
        assert engine.results(name) == written.slice(3000)
    found = spark.read.format("xml").option("rowTag", "row").schema("v BIGINT").load(f"{tmp_path}/out/saved")
    assert found.count() == 5000
