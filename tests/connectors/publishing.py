"""Publishes a table to a writer as hosts and driver do it, whichever of them writes its sink."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.outbox_rows import OutboxRows
from headgate.spark.results import DriverWriter, ExecutorWriter, HostWriter, Results, Writer
from headgate.spark.written_files import WrittenFiles


def outboxed(checkpoint: Path, query: Query, epoch: int, *tables: pa.Table) -> OutboxRows:
    """Tables in the outbox of a checkpoint, each as a replica writes it."""
    opened = Checkpoint(str(checkpoint))
    bundle = opened.bundle("outbox", epoch, "test")
    for table in tables:
        bundle.add(query.name, table)
    bundle.close()
    return OutboxRows(query, epoch, opened.uri, tuple(place for _, place in bundle.places))


def publish(writer: Writer, query: Query, epoch: int, table: pa.Table, checkpoint: Path) -> None:
    """One epoch; `checkpoint` is a folder for what Spark reads."""
    if isinstance(writer, ExecutorWriter):
        writer.publish(outboxed(checkpoint, query, epoch, table))
        return
    results = Results.of(query.name, epoch, table, query.visible, query.mode == "update")
    if isinstance(writer, HostWriter):
        files = WrittenFiles()
        for file in writer.stage(results, "first"):
            files.publish(file)
        return
    assert isinstance(writer, DriverWriter)
    writer.publish(results)
