"""Kafka to Kafka under a broker that stops and a driver that is killed: every answer is there, once if asked.

`make kafka-test ROWS=5000000` runs it with so many rows; by default there are few. `HEADGATE_KAFKA_OUTAGE` sets the
seconds that the broker is away.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headgate.feeder.broker import Broker
from headgate.feeder.kafka import KafkaTarget
from headgate.spark.checkpoint import Checkpoint, CheckpointError
from tests.crash.test_crash import Driver
from tests.kafka.auction_queries import QUERIES, SCHEMAS, UPDATING, tables
from tests.kafka.topics import Topics
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200)]

ROWS = int(os.environ.get("HEADGATE_KAFKA_ROWS", "100000"))
OUTAGE = float(os.environ.get("HEADGATE_KAFKA_OUTAGE", "20"))
TRIGGERS = 40
"""Micro-batches into which the rows are divided, at least."""


def test_nothing_is_lost_or_doubled(spark: Any, tmp_path: Path, broker: Broker, topics: Topics) -> None:
    laps = [("start", time.monotonic())]
    target = KafkaTarget(topics.servers, topics.name(""))
    parts: dict[str, list[str]] = {stream: [] for stream in SCHEMAS}
    for number, (stream, table) in enumerate(tables(ROWS)):
        target.send(stream, table)
        parts[stream].append(str(tmp_path / f"{stream}-{number}.parquet"))
        _write(table, parts[stream][-1])
    target.close()
    batches = -(-max(sum(pq.read_metadata(file).num_rows for file in files) for files in parts.values()) // _each())
    laps.append(("rows sent", time.monotonic()))
    (tmp_path / "script.sql").write_text(_script(topics))
    cut_off: list[range] = []
    # The first life ends at a third of the rows, when the sinks have an epoch and the checkpoint does not know of it.
    driver = Driver(tmp_path, "before-published")
    wait_until(lambda: _batches(tmp_path) > batches // 3, driver.process)
    (tmp_path / "fuse").touch()
    assert driver.process.wait(LIMIT) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    driver.kill()
    cut_off.append(_unpublished(tmp_path))
    # The second survives the broker's absence at two thirds, and ends at any moment.
    driver = Driver(tmp_path)
    wait_until(lambda: _batches(tmp_path) > batches * 2 // 3, driver.process)
    broker.stop()
    time.sleep(OUTAGE)
    read = _batches(tmp_path)
    assert read < batches, "some rows are left"
    broker.start()
    wait_until(lambda: _batches(tmp_path) > read, driver.process)
    driver.kill()
    cut_off.append(_unpublished(tmp_path))
    laps.append(("two lives", time.monotonic()))
    final = Driver(tmp_path, once=True)
    final.process.communicate(timeout=10 * LIMIT)
    assert final.process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    laps.append(("last life", time.monotonic()))
    for stream, files in parts.items():
        spark.read.parquet(*files).createOrReplaceTempView(stream)
    repeated = [epoch for name in QUERIES for epoch in _compare(spark, topics, name)]
    laps.append(("compared", time.monotonic()))
    print(", ".join(f"{name} {now - before:.0f} s" for (_, before), (name, now) in pairwise(laps)))
    print(f"{ROWS:,} rows, {len(QUERIES)} queries; messages sent again by epochs that were cut off: {len(repeated)}")
    print(f"epochs without a published mark when the driver was killed: {[(e.start, e.stop - 1) for e in cut_off]}")
    assert repeated, "the epoch at which the first life ended is sent again to the topics without transactions"
    foreign = {epoch for epoch in repeated if not any(epoch in epochs for epochs in cut_off)}
    assert not foreign, f"epochs {sorted(foreign)} were sent again; only {cut_off} were cut off"


def _batches(root: Path) -> int:
    """How many micro-batches with rows the newest commit contains; -1 if it is being replaced."""
    with suppress(CheckpointError):
        commit = Checkpoint(str(root / "ck")).newest()
        return -1 if commit is None else sum(batch + 1 for batch in commit.lanes.values())
    return -1


def _unpublished(root: Path) -> range:
    """After a kill: the epochs that were committed and not recorded as published."""
    checkpoint = Checkpoint(str(root / "ck"))
    newest = checkpoint.newest()
    assert newest is not None
    return range(checkpoint.published() + 1, newest.epoch + 1)


def _each() -> int:
    """The most rows of a stream in a micro-batch."""
    return max(1000, ROWS // TRIGGERS)


def _script(topics: Topics) -> str:
    statements = []
    for stream, schema in SCHEMAS.items():
        options = topics.options(
            subscribe=topics.name(stream),
            startingOffsets="earliest",
            value_format="json",
            maxOffsetsPerTrigger=str(_each()),
        )
        statements.append(
            f"CREATE STREAM {stream} ({schema}, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING kafka {options}"
        )
    for name, select in QUERIES.items():
        more = {"epoch_header": "true"} if _deduplicated(name) else {"delivery": "exactly_once"}
        more |= {"key": UPDATING[name]} if name in UPDATING else {}
        options = topics.options(topic=topics.name(f"out.{name}"), **more)
        statements.append(f"CREATE QUERY {name} INTO kafka {options} AS {select}")
    return ";\n".join(statements) + ";\n"


def _deduplicated(name: str) -> bool:
    """Every second query is sent at least once, and its consumer drops what it has seen."""
    return list(QUERIES).index(name) % 2 == 1


def _compare(spark: Any, topics: Topics, name: str) -> list[int]:
    """Compares the messages of a query with Spark's answer; returns the epochs of messages that came again, which must
    be the same as before."""
    select = QUERIES[name]
    wanted = Counter(row[0] for row in spark.sql(select).selectExpr("to_json(struct(*))").collect())
    messages = topics.read(f"out.{name}")
    repeated: list[int] = []
    if _deduplicated(name):
        seen: dict[str, tuple[str | None, str | None]] = {}
        kept = []
        for message in messages:
            mark = message.headers["headgate"] or ""
            if mark in seen:
                assert seen[mark] == (message.key, message.value), f"{mark} came again with another value"
                repeated.append(int(mark.split("/")[-2]))
            else:
                seen[mark] = (message.key, message.value)
                kept.append(message)
        messages = kept
    if name in UPDATING:
        state = {message.key: message.value for message in messages}
        found = Counter(value for value in state.values() if value is not None)
    else:
        found = Counter(message.value or "" for message in messages)
    lost, extra = _same_numbers(wanted), _same_numbers(found)
    lost, extra = lost - extra, extra - lost
    assert not lost, f"{name} lost {sum(lost.values())}: {list(lost)[:3]}"
    assert not extra, f"{name} has {sum(extra.values())} too many: {list(extra)[:3]}"
    return repeated


def _same_numbers(rows: Counter[str]) -> Counter[str]:
    """Rows with floating-point numbers to nine digits: sums depend on the order of the rows."""
    found: Counter[str] = Counter()
    for row, count in rows.items():
        parsed = json.loads(row, parse_float=lambda text: float(f"{float(text):.9g}"))
        found[json.dumps(parsed, sort_keys=True)] += count
    return found


def _write(table: Any, file: str) -> None:
    pq.write_table(table, file)
