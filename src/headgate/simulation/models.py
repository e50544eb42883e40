"""Models of operators: cost and number of results of each row, without any data."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headgate.scheduling.errors import ModelError
from headgate.simulation.costs import Cost, cost


@dataclass(frozen=True)
class Expected:
    """Mean cost and selectivity per row at given input rates."""

    cost: float
    selectivity: float


class Model:
    """A model of an operator. `start` creates its state for one run."""

    bytes_out: float | None

    def expected(self, rates: Sequence[float]) -> Expected:
        """Cost and selectivity per row at these input rates (by port)."""
        raise NotImplementedError

    def start(self, random: Random) -> ModelState:
        raise NotImplementedError


class ModelState:
    """The state of a modelled operator during a run.

    `seconds` is the fixed cost per row, or None if `draw` gives the cost of each row. `selectivity` is the fixed
    number of results per row, or None if `take` computes cost and results from the operator's state.
    """

    seconds: float | None = None
    selectivity: float | None = None

    def cost_of(self, given: float | Cost, random: Random) -> None:
        """Sets the part of the cost that does not depend on the state."""
        self.seconds = float(given) if isinstance(given, int | float) else None
        self.draw = cost(given).drawer(random)  # type: ignore[method-assign]

    def draw(self) -> float:
        """The cost of the next row to enter the operator's queue."""
        raise NotImplementedError

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        """Additional cost (s, on top of the drawn cost) and number of results of a row."""
        raise NotImplementedError


def _check(name: str, selectivity: float, bytes_out: float | None) -> None:
    if selectivity < 0:
        raise ModelError(f"{name} has selectivity {selectivity}; give zero or more")
    if bytes_out is not None and bytes_out < 0:
        raise ModelError(f"{name} writes rows of {bytes_out} bytes; give zero or more")


def _check_window(name: str, seconds: float | None, rows: float | None) -> None:
    if (seconds is None) == (rows is None):
        raise ModelError(f"{name} needs either a window in seconds or a window in rows")
    if not (seconds or rows or 0) > 0:
        raise ModelError(f"{name}'s window must be above zero")


@dataclass(frozen=True)
class OperatorModel(Model):
    """A stateless operator: `cost` per row (a number is a fixed cost), `selectivity` results per row.

    `bytes_out` is the size of a result; the default is the row size of the first input.
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

    A row costs `cost`, plus `probe` for each row in the opposite window (nested loops; 0 for a hash join), plus
    `match` for each result, plus `expire` for each row that has left the opposite window since the previous row.
    It yields `selectivity` × the rows in the opposite window.

    A window spans `window` seconds (rows match if they arrived within that time of each other, in whatever order
    they are processed) or the newest `rows` rows. `tumbling` windows (of `window` seconds, or of `rows` rows on each
    side) do not overlap, and rows match only within the same window; the number of results does then not depend on
    the order of processing.
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
        _check_window("a join", self.window, self.rows)
        if self.probe < 0 or self.match < 0 or self.expire < 0:
            raise ModelError("a join's cost per probe, per match and per expired row must not be negative")
        if self.expire and (self.window is None or self.tumbling):
            raise ModelError("rows expire only from a sliding time window; give this join no cost per expired row")

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
            # The later of two rows finds the earlier one: on average half of the window has been processed.
            opposite /= 2
        results = self.selectivity * opposite
        # In the long run one row expires for every row that arrives.
        return Expected(cost(self.cost).mean + self.expire + self.probe * opposite + self.match * results, results)

    def start(self, random: Random) -> ModelState:
        kind = _TumblingJoin if self.tumbling else _RowsJoin if self.window is None else _TimeJoin
        running = kind(self)
        running.cost_of(self.cost, random)
        return running


class _RowsJoin(ModelState):
    """Windows of the newest rows, in order of processing."""

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
    """Time windows: rows match if they arrived within the window of each other, in whatever order they are processed.

    A policy that runs one side ahead of the other therefore gets the same results, only later.
    """

    def __init__(self, model: JoinModel) -> None:
        self._model = model
        # Per side, (arrival, rows): rows in reach of the other side, and rows still too far ahead of it.
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
        """Number of rows of a side within the window of an arrival; arrivals on a side do not decrease."""
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
        # The tolerance lets sums of fractions (ten times 0.1) reach the next window.
        window = int(place + 1e-9)
        mine[window] = mine.get(window, 0.0) + rows
        opposite = self._sizes[1 - port].get(window, 0.0)
        results = model.selectivity * opposite * rows
        return model.probe * opposite * rows + model.match * results, results


@dataclass(frozen=True)
class AggregateModel(Model):
    """A tumbling window aggregate: `groups` results for every `rows` rows or every `window` seconds.

    The first row after the end of a time window emits its results, which take that row's arrival time.
    """

    cost: float | Cost
    rows: float | None = None
    window: float | None = None
    groups: float = 1.0
    bytes_out: float | None = None

    def __post_init__(self) -> None:
        cost(self.cost)
        _check("an aggregate", self.groups, self.bytes_out)
        _check_window("an aggregate", self.window, self.rows)

    def expected(self, rates: Sequence[float]) -> Expected:
        seen = self.rows if self.rows is not None else sum(rates) * (self.window or 0.0)
        return Expected(cost(self.cost).mean, min(self.groups / seen, self.groups) if seen else self.groups)

    def start(self, random: Random) -> ModelState:
        return _Aggregate(self, random)


class _Aggregate(ModelState):
    def __init__(self, model: AggregateModel, random: Random) -> None:
        self._model = model
        self.cost_of(model.cost, random)
        self._seen = 0.0
        self._end = -1.0

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        model = self._model
        if model.rows is not None:
            self._seen += rows
            # The tolerance lets sums of fractions (ten times 0.1) close the window.
            closed = int((self._seen + 1e-9) / model.rows)
            self._seen -= closed * model.rows
            return 0.0, closed * model.groups
        width = model.window or 0.0
        closed = 1 if 0 <= self._end <= arrival else 0
        if closed or self._end < 0:
            self._end = (arrival // width + 1) * width
        return 0.0, closed * model.groups
