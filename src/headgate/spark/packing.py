"""Carries the rows of many streams in one table: columns of the same type share a slot.

A union of streams needs one schema. A wide one, with a column per stream and name, would carry mostly nulls
(27 streams of 4 columns: 108 columns). Here a stream's columns are laid into slots by type, so that 27 streams
of the same shape need 4 columns, whatever their names are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headgate.graph.types import STRING, sql_name
from headgate.spark.valid_text import valid_text

TAG = "stream"
FLAW = "flaw"


@dataclass(frozen=True)
class Slot:
    """One column of the packed table."""

    name: str
    type: pa.DataType


class StreamRows(NamedTuple):
    """Rows of one stream in a packed batch.

    `flaws` says what is wrong with each row; None where no stream of the packing can have malformed rows. Bit i of a
    row's `mask` is set if route i of the stream brought it; None where the rows have no such column.
    """

    stream: str
    rows: pa.RecordBatch
    flaws: pa.StringArray | None = None
    mask: pa.Array | None = None


class Packing:
    """The slot of each column of each stream in the packed table.

    `columns` maps a stream to its columns: (name in the worker, type, Spark SQL that computes it); a column without
    SQL is not carried, and is all null in the worker, which takes no memory.
    `flaws` maps a stream to the Spark SQL that is not null for a malformed row: its raw text.
    `computed` maps a stream to the columns that Catalyst computes when an epoch begins: (name in the worker, type,
    Spark SQL over the names of its columns, in backquotes). These have slots of their own, behind the others.
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[tuple[str, pa.DataType, str | None]]],
        flaws: Mapping[str, str] | None = None,
        computed: Mapping[str, Sequence[tuple[str, pa.DataType, str]]] | None = None,
    ) -> None:
        self.given = (
            {stream: tuple(parts) for stream, parts in columns.items()},
            dict(flaws or {}),
            {stream: tuple(parts) for stream, parts in (computed or {}).items()},
        )
        """Plain values from which the same packing is made: `Packing(*given)`."""
        self.streams = tuple(columns)
        self._flaws = dict(flaws or {})
        self._tags = {name: number for number, name in enumerate(self.streams)}
        by_type: dict[pa.DataType, int] = {}
        for parts in columns.values():
            used: dict[pa.DataType, int] = {}
            for _, type_, sql in parts:
                if sql is not None:
                    used[type_] = used.get(type_, 0) + 1
            for type_, count in used.items():
                by_type[type_] = max(count, by_type.get(type_, 0))
        ordered = sorted(by_type.items(), key=lambda item: str(item[0]))
        self.slots = tuple(Slot(f"t{t}_{n}", type_) for t, (type_, count) in enumerate(ordered) for n in range(count))
        place = {slot.name: index for index, slot in enumerate(self.slots)}
        kind = {type_: t for t, (type_, _) in enumerate(ordered)}
        self._places: dict[str, list[int | None]] = {}
        self._names: dict[str, list[str]] = {}
        self._sql: dict[str, dict[int, str]] = {}
        for stream, parts in columns.items():
            used = {}
            places: list[int | None] = []
            self._sql[stream] = {}
            for _, type_, sql in parts:
                if sql is None:
                    places.append(None)
                    continue
                number = used[type_] = used.get(type_, -1) + 1
                index = place[f"t{kind[type_]}_{number}"]
                places.append(index)
                self._sql[stream][index] = sql
            self._places[stream] = places
            self._names[stream] = [name for name, _, _ in parts]

        self._computed: dict[str, dict[str, tuple[str, str]]] = {}
        extra: dict[str, Slot] = {}
        for stream, wanted in (computed or {}).items():
            used = {}
            self._computed[stream] = {}
            for name, type_, sql in wanted:
                used[type_] = used.get(type_, -1) + 1
                slot = extra.setdefault(f"{type_} {used[type_]}", Slot(f"c{len(extra)}", type_))
                self._computed[stream][name] = (slot.name, _over_slots(sql, partial(self.slot, stream)))
        self.extra = tuple(extra.values())
        order = {slot.name: len(self.slots) + number for number, slot in enumerate(self.extra)}
        for stream, found in self._computed.items():
            self._names[stream] += list(found)
            self._places[stream] += [order[slot] for slot, _ in found.values()]

    def slot(self, stream: str, name: str) -> str | None:
        """The column of the packed table that carries a stream's column; None if none does."""
        if stream not in self._names or name not in self._names[stream]:
            return None
        index = self._places[stream][self._names[stream].index(name)]
        return None if index is None or index >= len(self.slots) else self.slots[index].name

    def names(self, stream: str) -> list[str]:
        """A stream's columns as the worker sees them."""
        return list(self._names[stream])

    def text(self, stream: str, name: str) -> str | None:
        """Spark SQL over the slots for a computed column of a stream; None if there is none of this name."""
        found = self._computed.get(stream, {}).get(name)
        return None if found is None else found[1]

    def computed_slot(self, stream: str, name: str) -> str | None:
        """The column of completed rows (`complete`) that holds a computed column of a stream; None if there is none."""
        found = self._computed.get(stream, {}).get(name)
        return None if found is None else found[0]

    def complete(self, conditions: Mapping[tuple[str, str], str]) -> list[str] | None:
        """The `selectExpr` that adds the computed columns to the packed table; None if there are none. Each is computed
        where its condition (by stream and name) is true, and null elsewhere.

        >>> packing = Packing({"a": [("x", pa.int32(), "`x`")]}, computed={"a": [("y", pa.int32(), "`x` * 2")]})
        >>> packing.complete({("a", "y"): "stream = 0"})
        ['stream', 't0_0', 'CAST(CASE WHEN stream = 0 THEN t0_0 * 2 END AS INT) AS c0']
        """
        if not self.extra:
            return None
        cases: dict[str, str] = {}
        for stream, found in self._computed.items():
            for name, (place, sql) in found.items():
                if (stream, name) in conditions:
                    cases[place] = f"{cases.get(place, '')} WHEN {conditions[stream, name]} THEN {sql}"
        chosen = [TAG, *(slot.name for slot in self.slots)]
        for slot in self.extra:
            value = f"CASE{cases[slot.name]} END" if slot.name in cases else "NULL"
            if slot.type == STRING:
                value = valid_text(value, STRING)
            chosen.append(f"CAST({value} AS {sql_name(slot.type)}) AS {slot.name}")
        return [*chosen, FLAW] if self._flaws else chosen

    @property
    def flawed(self) -> bool:
        """Whether the last column marks malformed rows."""
        return bool(self._flaws)

    def select(self, stream: str, tag: str | None = None) -> list[str]:
        """The `selectExpr` that lays a stream's rows into the slots. `tag` is Spark SQL for the number of the stream
        that a row belongs to, where several of one shape are read together.

        >>> Packing({"a": [("x", pa.int32(), "x + 1")]}).select("a")
        ['CAST(0 AS SMALLINT) AS stream', 'CAST(x + 1 AS INT) AS t0_0']
        """
        sql = self._sql[stream]
        chosen = [f"CAST({self._tags[stream] if tag is None else tag} AS SMALLINT) AS {TAG}"]
        for index, slot in enumerate(self.slots):
            chosen.append(f"CAST({sql.get(index, 'NULL')} AS {sql_name(slot.type)}) AS {slot.name}")
        if self._flaws:
            flaw = valid_text(self._flaws[stream], STRING) if stream in self._flaws else "NULL"
            chosen.append(f"CAST({flaw} AS {sql_name(STRING)}) AS {FLAW}")
        return chosen

    def unpack(self, packed: pa.RecordBatch) -> Iterator[StreamRows]:
        """The rows of each stream in a packed batch, in order."""
        if not packed.num_rows:
            return
        tags = packed.column(0).to_numpy(zero_copy_only=False)
        edges = np.flatnonzero(np.diff(tags)) + 1
        starts = [0, *edges.tolist(), packed.num_rows]
        behind = 1 + len(self.slots) + len(self.extra)
        masked = packed.num_columns > behind + self.flawed
        for begin, end in pairwise(starts):
            stream = self.streams[int(tags[begin])]
            part = packed.slice(begin, end - begin)
            nothing = pa.nulls(part.num_rows)
            arrays = [nothing if index is None else self._typed(part, index) for index in self._places[stream]]
            rows = pa.RecordBatch.from_arrays(arrays, names=self._names[stream])
            flaws = part.column(behind) if self._flaws else None
            yield StreamRows(stream, rows, flaws, part.column(behind + self.flawed) if masked else None)

    def _typed(self, packed: pa.RecordBatch, index: int) -> pa.Array:
        """A slot's values under its own type: Spark labels instants with the session's time zone, ours are in UTC."""
        column, wanted = packed.column(index + 1), (self.slots + self.extra)[index].type
        return column if column.type == wanted else column.cast(wanted)


def _over_slots(sql: str, slot: Callable[[str], str | None]) -> str:
    """An expression with the names of columns replaced; texts and members of structs stay.

    >>> _over_slots("concat(`a`, '`a`', `s`.`a`)", {"a": "t0", "s": "t1"}.get)
    "concat(t0, '`a`', t1.`a`)"
    """

    def place(found: re.Match[str]) -> str:
        token = found[0]
        return token if token[0] in "'." else slot(token[1:-1].replace("``", "`")) or token

    return re.sub(r"'(?:\\.|''|[^'\\])*'|\.?`(?:``|[^`])*`", place, sql)
