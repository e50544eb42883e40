"""One task brings rows to the hosts of all replicas: each row once, in order."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from headgate.spark import task
from headgate.spark.task import REPLICA, divided_rows, gathered


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_each_row_goes_to_its_replica_in_order(replicas: int) -> None:
    chance = Random(replicas)
    owners = [chance.randrange(replicas - 1) for _ in range(500)]
    columns = [pa.array(range(500)), pa.array([str(n) for n in range(500)]), pa.array(owners, pa.int32())]
    rows = pa.RecordBatch.from_arrays([*columns, pa.array([1] * 500)], names=["n", "text", REPLICA, "mask"])
    found = divided_rows(rows, replicas)
    assert [part.schema.names for part in found] == [["n", "text", "mask"]] * replicas
    for replica, part in enumerate(found):
        assert part.column("n").to_pylist() == [n for n in range(500) if owners[n] == replica]
    assert not found[-1].num_rows


def test_batches_are_gathered_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MOST_ROWS", 10)
    batches = [pa.RecordBatch.from_arrays([pa.array(range(n, n + 4))], names=["n"]) for n in range(0, 28, 4)]
    found = list(gathered(iter(batches)))
    assert [batch.num_rows for batch in found] == [12, 12, 4]
    assert [n for batch in found for n in batch.column(0).to_pylist()] == list(range(28))
    monkeypatch.setattr(task, "MOST_BYTES", 8)
    assert len(list(gathered(iter(batches)))) == len(batches)
    assert list(gathered(iter([]))) == []
