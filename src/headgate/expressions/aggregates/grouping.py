"""Puts rows into groups and reduces columns group by group, all reductions of a round in one pass of Acero.

An aggregate function is a generator: it yields the reductions of a round, is sent their results (one value per
group), and returns the columns of its state. All functions run in step, so that the common case (counts, sums,
extremes) is a single pass over the rows, whatever the number of functions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.keys import one_chunk

SUM = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
VALID = pc.CountOptions(mode="only_valid")


@dataclass(frozen=True)
class Reduction:
    """Reduces one column to one value per group, by an aggregate function of Acero."""

    values: pa.Array
    how: str
    options: Any = None


def total(values: pa.Array) -> Reduction:
    """The sum of the values that are not null; null if there is none."""
    return Reduction(values, "sum", SUM)


def count(values: pa.Array) -> Reduction:
    """The number of values that are not null."""
    return Reduction(values, "count", VALID)


Rounds = Generator[list[Reduction], list[pa.Array], list[pa.Array]]
"""The generator of an aggregate function; see the module's docstring."""


class Groups:
    """The groups of some rows. `ids` (the group of each row, from 0) is set after the first round, if requested."""

    def __init__(self, keys: Sequence[pa.Array], rows: int) -> None:
        self._keys = list(keys) or [pa.array(np.zeros(rows, np.int8))]
        self._rows = rows
        self._given = len(keys)
        self.size = 0
        self.ids: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._id_array: pa.Array | None = None

    def spread(self, values: pa.Array) -> pa.Array:
        """Copies the value of each group to every row of the group."""
        return values.take(pa.array(self.ids))

    def reduce(self, programs: Sequence[Rounds], ids: bool = False) -> tuple[list[pa.Array], list[list[pa.Array]]]:
        """Runs the programs in step; returns the keys of each group and the result of each program."""
        waiting: dict[int, list[Reduction]] = {}
        returned: dict[int, list[pa.Array]] = {}
        for number, program in enumerate(programs):
            self._step(number, program, None, waiting, returned)
        keys, answers = self._first(waiting, ids)
        while waiting:
            asked, waiting = waiting, {}
            for number, requests in asked.items():
                share = answers[: len(requests)]
                answers = answers[len(requests) :]
                self._step(number, programs[number], share, waiting, returned)
            if waiting:
                answers = self._again(waiting)
        return keys[: self._given], [returned[number] for number in range(len(programs))]

    @staticmethod
    def _step(
        number: int,
        program: Rounds,
        answer: list[pa.Array] | None,
        waiting: dict[int, list[Reduction]],
        returned: dict[int, list[pa.Array]],
    ) -> None:
        try:
            waiting[number] = program.send(answer) if answer is not None else next(program)
        except StopIteration as end:
            returned[number] = end.value

    def _first(self, waiting: dict[int, list[Reduction]], ids: bool) -> tuple[list[pa.Array], list[pa.Array]]:
        reductions = [r for requests in waiting.values() for r in requests]
        if ids:
            reductions.append(Reduction(pa.array(np.arange(self._rows)), "list"))
        keys, answers = _grouped(self._keys, reductions)
        self.size = len(keys[0])
        if ids:
            places = answers.pop()
            self.ids = np.empty(self._rows, np.int64)
            lengths = pc.list_value_length(places).to_numpy()
            self.ids[places.flatten().to_numpy()] = np.repeat(np.arange(self.size), lengths)
            self._id_array = pa.array(self.ids)
        return keys, answers

    def _again(self, waiting: dict[int, list[Reduction]]) -> list[pa.Array]:
        reductions = [r for requests in waiting.values() for r in requests]
        if self._id_array is None:
            raise ValueError("a second round of reductions needs the ids of the groups; pass ids=True")
        keys, answers = _grouped([self._id_array], reductions)
        order = pa.array(np.argsort(keys[0].to_numpy()))
        return [answer.take(order) for answer in answers]


def _grouped(keys: Sequence[pa.Array], reductions: Sequence[Reduction]) -> tuple[list[pa.Array], list[pa.Array]]:
    """One pass of Acero, in this thread. A reduction requested twice is computed once."""
    columns = list(keys)
    places: dict[int, int] = {}
    wanted: dict[tuple[int, str], int] = {}
    specs: list[tuple[Any, str, Any]] = []
    answer_at: list[int] = []
    for r in reductions:
        target: Any = []
        key = (-1, r.how)
        if r.how != "count_all":
            place = places.get(id(r.values))
            if place is None:
                place = places[id(r.values)] = len(columns)
                columns.append(r.values)
            key, target = (place, f"{r.how} {r.options}"), f"c{place}"
        if key not in wanted:
            wanted[key] = len(specs)
            specs.append((target, r.how, r.options))
        answer_at.append(wanted[key])
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.Table.from_arrays(columns, names=names)
    result = table.group_by(names[: len(keys)], use_threads=False).aggregate(specs)
    found = [one_chunk(c) for c in result.columns]
    return found[: len(keys)], [found[len(keys) + at] for at in answer_at]
