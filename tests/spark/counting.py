"""A Python data source for tests: counts up to an end, a few rows a batch, in two partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

START = datetime(2024, 3, 1, 10, 0, 0, tzinfo=UTC)


class Stretch(InputPartition):
    """Every second number from `start` up to `stop`."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__((start, stop))
        self.start = start
        self.stop = stop


class CountingReader(DataSourceStreamReader):
    """Each batch adds twenty numbers."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._at = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        self._at = min(self._at + 20, self._end)
        return {"n": self._at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Stretch(start["n"] + turn, end["n"]) for turn in (0, 1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Stretch)
        for n in range(partition.start, partition.stop, 2):
            yield n, f"k{n % 3}", START + timedelta(seconds=n)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


class CountingSource(DataSource):
    """`spark.readStream.format("counting").option("end", "100")`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "n BIGINT, k STRING, ts TIMESTAMP"

    def streamReader(self, schema: Any) -> CountingReader:  # noqa: N802
        return CountingReader(int(self.options.get("end", "100")))
