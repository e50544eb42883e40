"""What a feeder sends to one stream: the rows, and when they arrive."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.types import sql_name
from headgate.simulation.arrivals import ArrivalBlocks, Moments

EVENT_TIME = pa.timestamp("us", "UTC")


class ColumnGenerators:
    """One random generator for each column of a stream.

    As long as each column draws one value per row from its own generator, rows depend on the seed alone, and not on how
    they are divided into batches.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self._seed = seed
        self._stream = stream
        self._known: dict[str, np.random.Generator] = {}

    def __getitem__(self, column: str) -> np.random.Generator:
        if column not in self._known:
            self._known[column] = generator(self._seed, f"{self._stream}/{column}")
        return self._known[column]


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A separate random generator for each purpose, derived from one seed."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


@dataclass(frozen=True)
class ArrivingRows:
    """The rows of a batch to generate: the number of the first row, and the arrival times of all rows.

    `elapsed` is in seconds since the start of the feeder, `ts` is the same as timestamps.
    """

    first: int
    elapsed: Moments
    ts: pa.Array

    def __len__(self) -> int:
        return len(self.elapsed)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of each row, from 0 at the start of the feeder."""
        return np.arange(self.first, self.first + len(self))


class RowMaker(Protocol):
    """Generates the rows of one stream."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        ...

    @property
    def event_time(self) -> str | None:
        """The column with the event time, if there is one."""
        ...

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        """The columns of the schema, generated without a loop over rows."""
        ...


@dataclass(frozen=True)
class Feed:
    """One stream of a feeder."""

    stream: str
    maker: RowMaker
    arrivals: ArrivalBlocks

    def declaration(
        self, using: str, options: Mapping[str, str], delay: str = "1 SECOND", more: Mapping[str, str] | None = None
    ) -> str:
        """The CREATE STREAM statement of this stream.

        `delay` is that of the watermark: how far rows may be out of order. `more`: extra columns, with their types.
        """
        columns = [f"{column.name} {sql_name(column.type)}" for column in self.maker.schema]
        columns += [f"{name} {type_}" for name, type_ in (more or {}).items()]
        if self.maker.event_time is not None:
            columns.append(f"WATERMARK FOR {self.maker.event_time} AS {self.maker.event_time} - INTERVAL {delay}")
        given = ", ".join(
            "{} '{}'".format(f"'{k}'" if "." in k else k, v.replace("'", "\\'")) for k, v in options.items()
        )
        return f"CREATE STREAM {self.stream} ({', '.join(columns)}) USING {using} OPTIONS ({given});"


class Schedule:
    """The arrival times of one stream, in order, each returned once."""

    def __init__(self, arrivals: ArrivalBlocks, random: np.random.Generator) -> None:
        self._blocks = arrivals.blocks(random)
        self._drawn: list[Moments] = []
        self.ended = False
        """Whether all arrival times have been returned."""

    def until(self, moment: float) -> Moments:
        """The arrival times up to a moment (s) that were not returned before."""
        while not self._drawn or self._drawn[-1][-1] <= moment:
            block = next(self._blocks, None)
            if block is None:
                break
            if len(block):
                self._drawn.append(block)
        due: list[Moments] = []
        while self._drawn and self._drawn[0][0] <= moment:
            block = self._drawn.pop(0)
            count = int(np.searchsorted(block, moment, side="right"))
            due.append(block[:count])
            if count < len(block):
                self._drawn.insert(0, block[count:])
                break
        self.ended = not self._drawn
        return np.concatenate(due) if due else np.empty(0)
