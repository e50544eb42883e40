"""Auctions in the manner of Nexmark: of 50 rows, 1 is a person, 3 are auctions, 46 are bids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, RowMaker

PERSONS, AUCTIONS, BIDS = 1, 3, 46
SHARES = {"persons": PERSONS / 50, "auctions": AUCTIONS / 50, "bids": BIDS / 50}
KEYS = {"persons": "id", "auctions": "id", "bids": "auction"}
FIRST = 1000
"""The id of the first person and of the first auction."""

_ACTIVE = 1000
"""Number of the newest persons, who open auctions and bid."""
_OPEN = 300
"""Number of the newest auctions, which get bids."""
_HOT = 100
"""One in this many sellers, bidders and auctions is hot: half of the rows refer to a hot one."""
_CATEGORIES = 5
_NAMES = pa.array([f"{first} {last}" for first in ("Ada", "Bo", "Cem", "Dia", "Eli") for last in ("Abe", "Ito", "Kim")])
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = pa.array(["Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne"])
_CHANNELS = pa.array(["apple", "google", "facebook", "baidu"])


def makers(seed: int) -> Mapping[str, RowMaker]:
    """The three streams; their ids refer to one another."""
    del seed
    return {"persons": Persons(), "auctions": Auctions(), "bids": Bids()}


class Persons:
    """Persons with consecutive ids."""

    schema = pa.schema(
        {
            "ts": EVENT_TIME,
            "id": pa.int64(),
            "name": pa.string(),
            "email": pa.string(),
            "city": pa.string(),
            "state": pa.string(),
        }
    )
    event_time = "ts"

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        ids = pa.array(FIRST + arriving.numbers)
        names = _NAMES.take(_index(draws, "name", count, len(_NAMES)))
        place = _index(draws, "state", count, len(_STATES))
        email = pc.binary_join_element_wise("p", ids.cast(pa.string()), "@example.org", "")
        return [arriving.ts, ids, names, email, _CITIES.take(place), _STATES.take(place)]


class Auctions:
    """Auctions with consecutive ids; each expires some seconds after it was opened. Prices are in cents."""

    schema = pa.schema(
        {
            "ts": EVENT_TIME,
            "id": pa.int64(),
            "item": pa.string(),
            "category": pa.int32(),
            "seller": pa.int64(),
            "initial": pa.int64(),
            "reserve": pa.int64(),
            "expires": EVENT_TIME,
        }
    )
    event_time = "ts"

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        ids = pa.array(FIRST + arriving.numbers)
        newest = arriving.numbers * PERSONS // AUCTIONS
        initial = _prices(draws["initial"], count)
        lasts = (draws["expires"].exponential(10.0, count) * 1e6 + 1e6).astype(np.int64)
        return [
            arriving.ts,
            ids,
            pc.binary_join_element_wise("item ", ids.cast(pa.string()), ""),
            pa.array(10 + (draws["category"].random(count) * _CATEGORIES).astype(np.int32)),
            pa.array(FIRST + _recent(draws, "seller", newest, _ACTIVE)),
            pa.array(initial),
            pa.array(initial + _prices(draws["reserve"], count)),
            pc.add(arriving.ts.cast(pa.int64()), pa.array(lasts)).cast(EVENT_TIME),
        ]


class Bids:
    """Bids on recent auctions, of which a few are hot."""

    schema = pa.schema(
        {
            "ts": EVENT_TIME,
            "auction": pa.int64(),
            "bidder": pa.int64(),
            "price": pa.int64(),
            "channel": pa.string(),
        }
    )
    event_time = "ts"

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        auctions = arriving.numbers * AUCTIONS // BIDS
        persons = arriving.numbers * PERSONS // BIDS
        return [
            arriving.ts,
            pa.array(FIRST + _recent(draws, "auction", auctions, _OPEN)),
            pa.array(FIRST + _recent(draws, "bidder", persons, _ACTIVE)),
            pa.array(_prices(draws["price"], count)),
            _CHANNELS.take(_index(draws, "channel", count, len(_CHANNELS))),
        ]


def _index(draws: ColumnGenerators, column: str, count: int, choices: int) -> pa.Array:
    return pa.array((draws[column].random(count) * choices).astype(np.int64))


def _prices(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Cents, from 1 to 10,000 dollars: uniform in their logarithm, as in Nexmark."""
    return np.round(10.0 ** (random.random(count) * 4.0) * 100.0).astype(np.int64)


def _recent(draws: ColumnGenerators, column: str, newest: npt.NDArray[np.int64], active: int) -> npt.NDArray[np.int64]:
    """One of the `active` newest numbers; in half of the rows, the newest hot number."""
    back = (draws[column].random(len(newest)) * np.minimum(active, newest + 1)).astype(np.int64)
    hot = draws[f"{column}/hot"].random(len(newest)) < 0.5
    return np.where(hot, newest // _HOT * _HOT, newest - back)
