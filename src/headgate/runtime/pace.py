"""How long a unit takes for a train: a fixed part and one that grows with the rows, fitted to the trains it has run."""

from __future__ import annotations

FIRST = 256
"""The most rows that a unit takes before its pace is known: few, as a function may take a millisecond for each."""

_CALL = 2e-5
"""What an operator takes for a batch however small (s), before anything is known of it."""

_KEEP = 0.9
"""How much the earlier trains count when another one has been run."""

_SPREAD = 0.05
"""The variance of the trains' lengths, in squares of their mean, below which the two parts cannot be told apart."""

SHORT = 1e-3
"""A train that takes less (s) does no harm, whatever it was thought to take."""

_SURPRISE = 4.0
"""A train that takes so many times more or less than it should begins the learning anew."""

_ALIKE = 5.0
"""After so many trains alike (as they count by `_KEEP`), a longer one is tried."""


class Pace:
    """Seconds of a train by its rows: `fixed + per_row · rows`, by least squares over the last trains.

    A vectorized operator with state takes about a millisecond for a train however short, so a train that fits into
    too short a time would cost far more than it brings: a train is always long enough that its rows take as long as
    the call itself. What that runs over is the policy's to charge.

    What cannot be told apart is taken to be the rows'. Trains get shorter then, which tells it apart; trains that stay
    alike are made twice as long now and then.
    """

    __slots__ = ("_call", "_count", "_dirty", "_product", "_rows", "_seconds", "_squares", "fixed", "per_row", "small")

    def __init__(self, operators: int) -> None:
        self._call = self.fixed = _CALL * operators
        self.per_row = 0.0
        self.small = 0.0
        """So many rows may always be taken at once."""
        self._count = self._rows = self._seconds = self._squares = self._product = 0.0
        self._dirty = False

    def learn(self, rows: int, seconds: float) -> None:
        """A train has been run."""
        foreseen = self.fixed + self.per_row * rows
        if seconds > SHORT or foreseen > SHORT:
            # Worth a look before the next train. If it is out of proportion, what was known is not true any more.
            self.small = 0.0
            if self._count > 1.5 and not foreseen / _SURPRISE < seconds < foreseen * _SURPRISE:
                self._count = self._rows = self._seconds = self._squares = self._product = 0.0
                self.fixed = self._call
        self._count = self._count * _KEEP + 1.0
        self._rows = self._rows * _KEEP + rows
        self._seconds = self._seconds * _KEEP + seconds
        self._squares = self._squares * _KEEP + rows * rows
        self._product = self._product * _KEEP + rows * seconds
        self._dirty = True

    def train(self, seconds: float) -> float:
        """How many rows fit into a time, or are worth a call."""
        if self._dirty:
            self._fit()
        if not self.per_row:
            return FIRST
        return max(self.small, (seconds - self.fixed) / self.per_row)

    def _fit(self) -> None:
        self._dirty = False
        count, rows, seconds = self._count, self._rows, self._seconds
        mean = seconds / rows
        spread = count * self._squares - rows * rows
        if spread > _SPREAD * rows * rows:
            slope = (count * self._product - rows * seconds) / spread
            self.per_row = max(slope, 0.05 * mean)
            self.fixed = max(0.0, (seconds - self.per_row * rows) / count)
            worth = 1.0
        else:
            worth = 2.0 * rows / count if count > _ALIKE else 1.0
            if self.fixed * count > 0.5 * seconds:
                self.fixed = self._call
            self.per_row = max((seconds - self.fixed * count) / rows, 0.1 * mean)
        self.small = max(worth, self.fixed / self.per_row) if self.per_row else 1.0
