"""Modelled operators: what a row costs and what becomes of it, without any data."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headgate.scheduling.errors import ModelError
from headgate.simulation.costs import Cost, cost


@dataclass(frozen=True)
class Expected:
    """What a model does to one row on average, at given input rates."""

    cost: float
    selectivity: float


class Model:
    """A modelled operator. `start` makes the state of one run."""

    bytes_out: float | None

    def expected(self, rates: Sequence[float]) -> Expected:
        """Cost and selectivity per row when the inputs (by port) have these rates."""
        raise NotImplementedError

    def start(self, random: Random) -> ModelState:
        raise NotImplementedError


class ModelState:
    """The live state of a modelled operator.

    `seconds` is the fixed cost of a row, or None if `draw` gives each row's own. `selectivity` is the fixed
    number of results per row, or None if `take` computes cost and results from the operator's state.
    """

    seconds: float | None = None
    selectivity: float | None = None

    def cost_of(self, given: float | Cost, random: Random) -> None:
        """Sets what a row costs before any state is looked at."""
        self.seconds = float(given) if isinstance(given, int | float) else None
        self.draw = cost(given).drawer(random)  # type: ignore[method-assign]

    def draw(self) -> float:
        """The cost of the next row to enter the operator's queue."""
        raise NotImplementedError

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        """Cost (s, in addition to the drawn cost) and results of a row."""
        raise NotImplementedError


def _check(name: str, selectivity: float, bytes_out: float | None) -> None:
    if selectivity < 0:
        raise ModelError(f"{name} has selectivity {selectivity}; give zero or more")
    if bytes_out is not None and bytes_out < 0:
        raise ModelError(f"{name} writes rows of {bytes_out} bytes; give zero or more")


@dataclass(frozen=True)
class OperatorModel(Model):
    """A stateless operator: `cost` per row (a number: fixed), `selectivity` results per row.

    `bytes_out` is the size of a result; by default that of the operator's first input.
    """

    cost: float | Cost
    selectivity: float = 1.0
    bytes_out: float | None = None

    def __post_init__(self) -> None:
        cost(self.cost)
        _check("an operator", self.selectivity, self.bytes_out)

    def expected(self, rates: Sequence[float]) -> Expected:
        return Expected(cost(self.cost).mean, self.selectivity)

    def start(self, random: Random) -> ModelState:
        return _Stateless(self, random)


class _Stateless(ModelState):
    def __init__(self, model: OperatorModel, random: Random) -> None:
        self.selectivity = model.selectivity
        self.cost_of(model.cost, random)


@dataclass(frozen=True)
class JoinModel(Model):
    """A symmetric window join of two inputs.

    A row costs `cost` plus `probe` for each row in the opposite window (nested loops) plus `match` for each
    result (hash join: probe = 0) plus `expire` for each row that has left the opposite window since the last one,
    and yields `selectivity` × rows in the opposite window. The window is
    `window` seconds (rows meet that arrived within it of each other, whichever is processed first), or the newest
    `rows` rows. `tumbling`: windows do not slide but follow one another (of `window` seconds, or of `rows` rows a
    side), and rows meet only those of the same window; so the number of results is the same whichever side is
    processed first.
    """

    cost: float | Cost
    selectivity: float
    window: float | None = None
    rows: int | None = None
    probe: float = 0.0
    match: float = 0.0
    bytes_out: float | None = None
    tumbling: bool = False
    expire: float = 0.0

    def __post_init__(self) -> None:
        cost(self.cost)
        _check("a join", self.selectivity, self.bytes_out)
        if (self.window is None) == (self.rows is None):
            raise ModelError("a join needs either a window in seconds or a window in rows")
        if not (self.window or self.rows or 0) > 0:
            raise ModelError("a join's window must be above zero")
        if self.probe < 0 or self.match < 0 or self.expire < 0:
            raise ModelError("a join's cost per probe, per match and per expired row must not be negative")
        if self.expire and (self.window is None or self.tumbling):
            raise ModelError("only a sliding window of time has rows that expire; give the join no cost for them")

    def expected(self, rates: Sequence[float]) -> Expected:
        left, right = rates[0], rates[1]
        total = left + right
        if self.rows is not None:
            opposite = float(self.rows)
        elif total > 0:
            opposite = 2 * left * right / total * (self.window or 0.0)
        else:
            opposite = 0.0
        if self.tumbling:
            # Of two rows the later finds the earlier: on average half of the window has come.
            opposite /= 2
        results = self.selectivity * opposite
        # In the long run one row expires for every row that comes.
        return Expected(cost(self.cost).mean + self.expire + self.probe * opposite + self.match * results, results)

    def start(self, random: Random) -> ModelState:
        kind = _TumblingJoin if self.tumbling else _Joining if self.window is None else _TimeJoin
        running = kind(self)
        running.cost_of(self.cost, random)
        return running


class _Joining(ModelState):
    """Windows of the newest rows, in the order in which they come to the join."""

    def __init__(self, model: JoinModel) -> None:
        self._model = model
        self._windows: tuple[deque[float], deque[float]] = (deque(), deque())
        self._sizes = [0.0, 0.0]

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        model, window = self._model, self._windows[port]
        opposite = self._sizes[1 - port]
        window.append(rows)
        self._sizes[port] += rows
        while self._sizes[port] > (model.rows or 0) and len(window) > 1:
            self._sizes[port] -= window.popleft()
        results = model.selectivity * opposite * rows
        return model.probe * opposite * rows + model.match * results, results


class _TimeJoin(ModelState):
    """Windows of time: rows match that arrived within the window of each other, whichever came to the join first.

    So a policy that runs one side ahead of the other gets the same results, only later.
    """

    def __init__(self, model: JoinModel) -> None:
        self._model = model
        # Per side, rows by arrival: those the other side can reach now, and those too far ahead of it.
        self._reached: tuple[deque[tuple[float, float]], deque[tuple[float, float]]] = (deque(), deque())
        self._ahead: tuple[deque[tuple[float, float]], deque[tuple[float, float]]] = (deque(), deque())
        self._sizes = [0.0, 0.0]
        self._expired = 0.0

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        model = self._model
        opposite = self._opposite(1 - port, arrival, model.window or 0.0)
        self._ahead[port].append((arrival, rows))
        results = model.selectivity * opposite * rows
        removing, self._expired = model.expire * self._expired, 0.0
        return removing + model.probe * opposite * rows + model.match * results, results

    def _opposite(self, side: int, arrival: float, window: float) -> float:
        """Rows of a side within the window of an arrival; arrivals on the other side never fall."""
        reached, ahead = self._reached[side], self._ahead[side]
        while ahead and ahead[0][0] <= arrival + window:
            reached.append(ahead.popleft())
            self._sizes[side] += reached[-1][1]
        while reached and reached[0][0] < arrival - window:
            expired = reached.popleft()[1]
            self._sizes[side] -= expired
            self._expired += expired
        if not reached:
            self._sizes[side] = 0.0
        return self._sizes[side]


class _TumblingJoin(ModelState):
    def __init__(self, model: JoinModel) -> None:
        self._model = model
        self._seen = [0.0, 0.0]
        self._sizes: tuple[dict[int, float], dict[int, float]] = ({}, {})

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        model, mine = self._model, self._sizes[port]
        place = self._seen[port] / model.rows if model.rows is not None else arrival / (model.window or 0.0)
        self._seen[port] += rows
        # A hair of tolerance: fractions like ten times 0.1 must still begin the next window.
        window = int(place + 1e-9)
        mine[window] = mine.get(window, 0.0) + rows
        opposite = self._sizes[1 - port].get(window, 0.0)
        results = model.selectivity * opposite * rows
        return model.probe * opposite * rows + model.match * results, results


@dataclass(frozen=True)
class AggregateModel(Model):
    """A tumbling window aggregate: `groups` results for every `rows` rows, or every `window` seconds.

    A window of time is emitted by the first row after its end (that row's arrival dates the results).
    """

    cost: float | Cost
    rows: float | None = None
    window: float | None = None
    groups: float = 1.0
    bytes_out: float | None = None

    def __post_init__(self) -> None:
        cost(self.cost)
        _check("an aggregate", self.groups, self.bytes_out)
        if (self.window is None) == (self.rows is None):
            raise ModelError("an aggregate needs either a window in seconds or a window in rows")
        if not (self.window or self.rows or 0) > 0:
            raise ModelError("an aggregate's window must be above zero")

    def expected(self, rates: Sequence[float]) -> Expected:
        seen = self.rows if self.rows is not None else sum(rates) * (self.window or 0.0)
        return Expected(cost(self.cost).mean, min(self.groups / seen, self.groups) if seen else self.groups)

    def start(self, random: Random) -> ModelState:
        return _Aggregating(self, random)


class _Aggregating(ModelState):
    def __init__(self, model: AggregateModel, random: Random) -> None:
        self._model = model
        self.seconds = float(model.cost) if isinstance(model.cost, int | float) else None
        self.draw = cost(model.cost).drawer(random)  # type: ignore[method-assign]
        self._seen = 0.0
        self._end = -1.0

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        model = self._model
        if model.rows is not None:
            self._seen += rows
            # A hair of tolerance: fractions like ten times 0.1 must still close the window.
            closed = int((self._seen + 1e-9) / model.rows)
            self._seen -= closed * model.rows
            return 0.0, closed * model.groups
        width = model.window or 0.0
        closed = 1 if 0 <= self._end <= arrival else 0
        if closed or self._end < 0:
            self._end = (arrival // width + 1) * width
        return 0.0, closed * model.groups
