"""Recorded traces: rows from a file that arrive at their recorded times, at any speed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, Feed
from headgate.feeder.feeder import FeedError
from headgate.simulation.arrivals import Moments, RecordedArrivals

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".orc": "orc",
}


class RecordedRows:
    """The rows of a trace, in its order. `restamp`: the time column gets the times at which rows are sent."""

    def __init__(self, table: pa.Table, event_time: str, restamp: bool = False) -> None:
        self._table = table.combine_chunks()
        self._event_time = event_time
        self._restamp = restamp
        place = table.schema.get_field_index(event_time)
        self.schema = table.schema.set(place, pa.field(event_time, EVENT_TIME)) if restamp else table.schema

    @property
    def event_time(self) -> str | None:
        return self._event_time

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        del draws
        part = self._table.slice(arriving.first, len(arriving)).combine_chunks()
        return [
            arriving.ts if self._restamp and name == self._event_time else column.combine_chunks()
            for name, column in zip(part.column_names, part.columns, strict=True)
        ]


def replay(
    path: str | os.PathLike[str],
    *,
    stream: str | None = None,
    time_column: str | None = None,
    speed: float = 1.0,
    restamp: bool = False,
) -> Feed:
    """A feed of the rows of a file (Parquet, CSV, JSON lines, Arrow, ORC) or of a folder of Parquet files.

    - `stream`: the name of the stream; by default that of the file
    - `time_column`: the column with the arrival times, timestamps or numbers of seconds; by default the first
      timestamp. Where times decrease, rows keep their order and arrive together with the latest row before them
    - `speed`: 10 sends the trace ten times as fast as it was recorded
    - `restamp`: the time column gets the times at which rows are sent; otherwise rows are sent as they are
    """
    if not speed > 0:
        raise FeedError(f"the speed is {speed}; give a factor above zero")
    table = _read(Path(path))
    column = time_column or next((f.name for f in table.schema if pa.types.is_timestamp(f.type)), None)
    if column is None or column not in table.column_names:
        has = ", ".join(table.column_names)
        problem = f"has no column {time_column}" if time_column else "has no timestamp column"
        raise FeedError(f"{path} {problem}; name the column with the times of its rows (it has {has})")
    name = stream or Path(path).name.partition(".")[0]
    return Feed(name, RecordedRows(table, column, restamp), RecordedArrivals(_moments(path, table, column) / speed))


def _read(path: Path) -> pa.Table:
    kind = "parquet" if path.is_dir() else _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise FeedError(
            f"{path}: the ending names no format; give a file {', '.join(_FORMATS)}, or a folder of Parquet"
        )
    if not path.exists():
        raise FeedError(f"{path}: no such file; give a recorded file")
    try:
        return ds.dataset(path, format=kind).to_table()
    except OSError as error:
        raise FeedError(f"{path}: {(error.strerror or str(error)).lower()}; give a recorded file") from error
    except pa.ArrowException as error:
        raise FeedError(f"{path} cannot be read as {kind}: {error}") from error


def _moments(path: str | os.PathLike[str], table: pa.Table, column: str) -> Moments:
    times = table.column(column)
    if times.null_count:
        raise FeedError(f"{path}: {times.null_count} rows have no {column}; remove them or name another column")
    if pa.types.is_timestamp(times.type):
        seconds = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64()).to_numpy() / 1e6
    elif pa.types.is_integer(times.type) or pa.types.is_floating(times.type):
        seconds = np.asarray(times.to_numpy(), float)
    else:
        raise FeedError(f"{path}: column {column} is {times.type}; give one with timestamps or seconds")
    return np.maximum.accumulate(seconds - seconds[0]) if len(seconds) else np.empty(0)
