"""A forest: sensors that measure temperature, humidity and smoke, weather stations, and fires that develop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, RowMaker
from headgate.feeder.workloads.episodes import Episodes

LOCATIONS = 20
SHARES = {"sensors": 0.9, "weather": 0.1}
KEYS = {"sensors": "location", "weather": "location"}
_NAMES = pa.array([f"ridge-{number:02d}" for number in range(LOCATIONS)])


def makers(seed: int) -> Mapping[str, RowMaker]:
    """Sensors and weather stations of one forest."""
    return {"sensors": Sensors(seed), "weather": WeatherStations()}


class Sensors:
    """Readings. Where a fire burns, they become hotter, dryer and smokier until it ends.

    Without a fire a temperature is at most 34 degrees, humidity at least 20 % and smoke at most 0.6.
    """

    schema = pa.schema(
        {
            "ts": EVENT_TIME,
            "location": pa.string(),
            "temperature": pa.int32(),
            "humidity": pa.int32(),
            "smoke": pa.float64(),
        }
    )
    event_time = "ts"

    def __init__(self, seed: int) -> None:
        self._fires = Episodes(seed, "fires", LOCATIONS, gap=240.0, shortest=20.0, longest=60.0)

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        place = (draws["location"].random(count) * LOCATIONS).astype(np.int64)
        fire = self._fires.strength(place, arriving.elapsed)
        temperature = np.clip(draws["temperature"].normal(20.0, 5.0, count), 0, 34) + 30.0 * fire
        humidity = np.clip(draws["humidity"].normal(55.0, 12.0, count), 20, 100) * (1.0 - 0.8 * fire)
        smoke = np.minimum(draws["smoke"].random(count) ** 4 * 0.6 + 0.6 * fire, 1.0)
        return [
            arriving.ts,
            _NAMES.take(pa.array(place)),
            pa.array(temperature.astype(np.int32)),
            pa.array(humidity.astype(np.int32)),
            pa.array(smoke),
        ]


class WeatherStations:
    """Wind (m/s) and rain (mm/h)."""

    schema = pa.schema({"ts": EVENT_TIME, "location": pa.string(), "wind": pa.float64(), "rain": pa.float64()})
    event_time = "ts"

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        place = (draws["location"].random(count) * LOCATIONS).astype(np.int64)
        return [
            arriving.ts,
            _NAMES.take(pa.array(place)),
            pa.array(draws["wind"].gamma(2.0, 4.0, count)),
            pa.array(np.maximum(draws["rain"].normal(-1.0, 1.0, count), 0.0)),
        ]
