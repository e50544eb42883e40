"""Uniform readings without episodes (004 Table 1), as the benches use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, RowMaker

SHARES = {"readings": 1.0}
KEYS = {"readings": "location"}
_LOCATIONS = pa.array([f"location-{number:03d}" for number in range(20)])


def makers(seed: int) -> Mapping[str, RowMaker]:
    """One stream."""
    del seed
    return {"readings": Readings()}


class Readings:
    """Temperature 0 to 40, humidity 0 to 100, 20 locations."""

    schema = pa.schema(
        {"ts": EVENT_TIME, "location": pa.string(), "temperature": pa.int32(), "humidity": pa.int32()},
    )
    event_time = "ts"

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        place = (draws["location"].random(count) * len(_LOCATIONS)).astype(np.int64)
        return [
            arriving.ts,
            _LOCATIONS.take(pa.array(place)),
            pa.array((draws["temperature"].random(count) * 41).astype(np.int32)),
            pa.array((draws["humidity"].random(count) * 101).astype(np.int32)),
        ]
