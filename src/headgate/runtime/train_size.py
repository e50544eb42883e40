"""The size of a unit's trains: a model of the time a train takes, fitted to the trains that the unit has run."""

from __future__ import annotations

FIRST_TRAIN = 16
"""The most rows in a unit's first train: few, because a function may take many milliseconds for each."""

_CALL_SECONDS = 2e-5
"""Assumed time of an operator for a batch of any size (s), before it is measured."""

_DECAY = 0.9
"""Weight of the earlier trains when another one is added."""

_MIN_VARIANCE = 0.05
"""Relative variance of the train sizes below which fixed and per-row cost cannot be separated."""

SHORT_TRAIN = 1e-3
"""A train that takes less than this (s) is harmless, whatever its predicted time."""

_PROMPT = 5e-3
_CALLS = 20.0
"""A train takes at most `_PROMPT` seconds, or `_CALLS` times its fixed cost: whoever interrupts a grant waits for the
end of its train."""

_OUTLIER = 4.0
"""A train that takes this many times more or less than predicted restarts the fit."""

_PROBE_AFTER = 5.0
"""After this many trains of equal size (weighted by `_DECAY`), a longer one is tried."""


class TrainSize:
    """Predicts the time of a train, `fixed + per_row · rows`, by least squares over the recent trains of a unit.

    A vectorized operator with state takes about a millisecond for a train of any size, so a train that fits into a very
    short time would cost far more than it gains: a train always has enough rows to take as long as the call
    itself. The policy charges the overrun.

    Where fixed and per-row cost cannot be separated, the time is attributed to the rows. Trains get shorter then, which
    separates them; trains that stay equally long are doubled now and then.

    `cost` is what the operators are believed to cost for a row (s). It counts for the first train alone: units are made
    again with every change of the plan, and a costly function must not delay all others each time.
    """

    __slots__ = (
        "_call",
        "_count",
        "_dirty",
        "_first",
        "_product",
        "_rows",
        "_seconds",
        "_squares",
        "fixed",
        "minimum",
        "per_row",
    )

    def __init__(self, operators: int, cost: float = 0.0) -> None:
        self._first = min(FIRST_TRAIN, max(1.0, _PROMPT / cost)) if cost else FIRST_TRAIN
        self._call = self.fixed = _CALL_SECONDS * operators
        self.per_row = 0.0
        self.minimum = 0.0
        """The fewest rows worth a call: up to this many are taken whatever the deadline."""
        self._count = self._rows = self._seconds = self._squares = self._product = 0.0
        self._dirty = False

    def learn(self, rows: int, seconds: float) -> None:
        """Adds the time of a train."""
        predicted = self.fixed + self.per_row * rows
        if seconds > SHORT_TRAIN or predicted > SHORT_TRAIN:
            # Fit again before the next train. If the prediction is far off, the earlier trains are no longer valid.
            self.minimum = 0.0
            if self._count > 1.5 and not predicted / _OUTLIER < seconds < predicted * _OUTLIER:
                self._count = self._rows = self._seconds = self._squares = self._product = 0.0
                self.fixed = self._call
        self._count = self._count * _DECAY + 1.0
        self._rows = self._rows * _DECAY + rows
        self._seconds = self._seconds * _DECAY + seconds
        self._squares = self._squares * _DECAY + rows * rows
        self._product = self._product * _DECAY + rows * seconds
        self._dirty = True

    @property
    def prompt(self) -> float:
        """The longest time (s) that a train should take."""
        return max(_PROMPT, _CALLS * self.fixed)

    def within(self, seconds: float) -> float:
        """The number of rows that fit into a time, at least `minimum`."""
        if self._dirty:
            self._fit()
        if not self.per_row:
            return self._first
        return max(self.minimum, (seconds - self.fixed) / self.per_row)

    def _fit(self) -> None:
        self._dirty = False
        count, rows, seconds = self._count, self._rows, self._seconds
        mean = seconds / rows
        spread = count * self._squares - rows * rows
        if spread > _MIN_VARIANCE * rows * rows:
            slope = (count * self._product - rows * seconds) / spread
            self.per_row = max(slope, 0.05 * mean)
            self.fixed = max(0.0, (seconds - self.per_row * rows) / count)
            least = 1.0
        else:
            least = 2.0 * rows / count if count > _PROBE_AFTER else 1.0
            if self.fixed * count > 0.5 * seconds:
                self.fixed = self._call
            self.per_row = max((seconds - self.fixed * count) / rows, 0.1 * mean)
        self.minimum = max(least, self.fixed / self.per_row) if self.per_row else 1.0
