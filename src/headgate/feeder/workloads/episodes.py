"""Episodes that begin, develop and end at several places, such as fires and attacks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.feeder.feed import generator
from headgate.simulation.arrivals import Moments

_HORIZON = 3600.0
"""Seconds after which the same episodes repeat."""
_LONG_AGO = -1e12


class Episodes:
    """When episodes begin at each place, and how long they last; determined by the seed alone.

    - `gap`: mean seconds between two episodes at a place
    - `shortest`, `longest`: seconds that an episode lasts
    """

    def __init__(self, seed: int, purpose: str, places: int, gap: float, shortest: float, longest: float) -> None:
        random = generator(seed, purpose)
        count = int(_HORIZON / gap * 2) + 10
        lasts = random.uniform(shortest, longest, (places, count))
        begins = np.cumsum(random.exponential(gap, (places, count)), axis=1)
        begins += np.cumsum(lasts, axis=1) - lasts
        # One sorted array for all places: a place's episodes are within [place, place + 1) horizons.
        inside = begins < _HORIZON
        place = np.broadcast_to(np.arange(places)[:, None], begins.shape)
        self._begins = np.concatenate([[_LONG_AGO], (begins + place * _HORIZON)[inside]])
        self._lasts = np.concatenate([[1.0], lasts[inside]])

    def age(self, place: npt.NDArray[np.int64], elapsed: Moments) -> Moments:
        """Progress of the episode at a place and time: 0 at its beginning, 1 at its end, above 1 if there is none."""
        moment = place * _HORIZON + np.fmod(elapsed, _HORIZON)
        found = np.searchsorted(self._begins, moment, side="right") - 1
        age: Moments = (moment - self._begins[found]) / self._lasts[found]
        return age

    def strength(self, place: npt.NDArray[np.int64], elapsed: Moments) -> Moments:
        """0 without an episode; with one, it rises in its first half to 1 and falls in its last quarter to 0."""
        age = self.age(place, elapsed)
        rising, falling = np.clip(age / 0.5, 0.0, 1.0), np.clip((1.0 - age) / 0.25, 0.0, 1.0)
        return rising * rising * (3.0 - 2.0 * rising) * falling
