"""What Structured Streaming answers to a case: its batches come one after the other, then a row far in the future.

That row moves the watermark past everything, so that append mode puts out every window; it stays in the state
itself and is never seen. Spark waits between batches until it is idle, since the watermark by which it drops rows
is otherwise one batch behind the one that it has announced.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.spark.types import to_arrow
from tests.arriving import arrive_parquet
from tests.oracle.answers import Answer
from tests.oracle.cases import Case, Input

FUTURE = datetime(2200, 1, 1, tzinfo=UTC)


def answer(case: Case, session: Any) -> Answer:
    """The rows that a streaming query over the case's streams puts out, in append mode."""
    session = session.newSession()
    session.conf.set("spark.sql.session.timeZone", case.zone)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    with tempfile.TemporaryDirectory(prefix="headgate-oracle-") as root:
        folders = {name: Path(root) / name for name, of in case.inputs.items() if f" {name} " in f" {case.query} "}
        for name, folder in folders.items():
            folder.mkdir()
            _stream(session, case.inputs[name], folder)
        frame = session.sql(case.query)
        types = [to_arrow(f.dataType) for f in frame.schema.fields]
        writer = frame.writeStream.format("memory").queryName("answer").outputMode("append")
        query = writer.option("checkpointLocation", f"{root}/checkpoint").start()
        try:
            streams = [
                [(folder, b) for b in [*case.batches[n], _final(case.inputs[n])]] for n, folder in folders.items()
            ]
            for number, batches in enumerate(zip_longest(*streams)):
                for folder, batch in filter(None, batches):
                    arrive_parquet(folder / f"{number:05d}.parquet", pa.Table.from_batches([batch]))
                query.processAllAvailable()
        finally:
            query.stop()
        return Answer.of(session.sql("SELECT * FROM answer").toArrow(), types)


def _stream(session: Any, of: Input, folder: Path) -> None:
    if of.static or of.time is None:
        raise ValueError(f"@streaming needs streams with a watermark; {of.name} has none")
    from headgate.graph.types import Schema
    from headgate.spark.types import spark_schema

    columns = Schema.of(*((f.name, f.type) for f in of.schema))
    frame = session.readStream.schema(spark_schema(columns)).parquet(str(folder))
    frame.withWatermark(of.time, f"{of.delay.total_seconds()} seconds").createOrReplaceTempView(of.name)


def _final(of: Input) -> pa.RecordBatch:
    values = [pa.array([FUTURE if f.name == of.time else None], f.type) for f in of.schema]
    return pa.RecordBatch.from_arrays(values, schema=of.schema)
