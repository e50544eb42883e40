"""21 queries over auctions in the manner of Nexmark, and the rows that they read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators
from headgate.feeder.workloads.auctions import SHARES, makers

SCHEMAS = {
    "persons": "ts TIMESTAMP, id BIGINT, name STRING, email STRING, city STRING, state STRING",
    "auctions": "ts TIMESTAMP, id BIGINT, item STRING, category INT, seller BIGINT, initial BIGINT, reserve BIGINT,"
    " expires TIMESTAMP",
    "bids": "ts TIMESTAMP, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING",
}
START = 1_700_000_000_000_000
RATE = 10_000.0
"""Rows per second of event time, of all streams together."""
_PIECE = 100_000

QUERIES = {
    "q1_euros": "SELECT auction, bidder, price * 0.9 AS euros, ts FROM bids WHERE price > 950000",
    "q2_some_auctions": "SELECT auction, price FROM bids WHERE auction % 123 = 0 AND price > 500000",
    "q3_sellers": "SELECT id, name, city FROM persons WHERE state IN ('OR', 'ID', 'CA')",
    "q4_categories": "SELECT window(ts, '10 seconds') AS w, category, avg(reserve - initial) AS margin, count(*) AS n"
    " FROM auctions GROUP BY window(ts, '10 seconds'), category",
    "q5_hot_items": "SELECT w, auction, n FROM (SELECT w, auction, n, row_number() OVER (PARTITION BY w ORDER BY n"
    " DESC, auction) AS place FROM (SELECT window(ts, '10 seconds', '5 seconds') AS w, auction, count(*) AS n FROM bids"
    " GROUP BY window(ts, '10 seconds', '5 seconds'), auction)) WHERE place <= 3",
    "q6_bidders": "SELECT window(ts, '20 seconds') AS w, count(DISTINCT bidder) AS bidders FROM bids"
    " GROUP BY window(ts, '20 seconds')",
    "q7_highest": "SELECT window(ts, '5 seconds') AS w, max(price) AS highest, count(*) AS n FROM bids"
    " GROUP BY window(ts, '5 seconds')",
    "q8_new_sellers": "SELECT p.id, p.name, a.item, a.reserve FROM persons p JOIN auctions a ON p.id = a.seller"
    " AND a.ts BETWEEN p.ts AND p.ts + INTERVAL 2 SECONDS",
    "q9_first_bids": "SELECT a.id, a.item, b.bidder, b.price FROM auctions a JOIN bids b ON a.id = b.auction"
    " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND WHERE b.price > 800000",
    "q10_unsold": "SELECT a.id, a.seller FROM auctions a LEFT ANTI JOIN bids b ON a.id = b.auction"
    " AND b.price >= a.reserve AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS",
    "q11_sessions": "SELECT session_window(ts, '1 second') AS s, bidder, count(*) AS n FROM bids WHERE price > 900000"
    " GROUP BY session_window(ts, '1 second'), bidder",
    "q12_states": "SELECT window(ts, '30 seconds') AS w, state, count(*) AS n FROM persons"
    " GROUP BY window(ts, '30 seconds'), state",
    "q13_channels": "SELECT window(ts, '10 seconds') AS w, channel, count(*) AS n, sum(price) AS total FROM bids"
    " GROUP BY window(ts, '10 seconds'), channel",
    "q14_bands": "SELECT auction, CASE WHEN price > 900000 THEN 'high' ELSE 'middle' END AS band, upper(channel) AS c"
    " FROM bids WHERE price BETWEEN 850000 AND 1000000 AND hour(ts) >= 0",
    "q15_busy": "SELECT window(ts, '10 seconds') AS w, auction, count(*) AS n FROM bids"
    " GROUP BY window(ts, '10 seconds'), auction HAVING count(*) > 500",
    "q16_spread": "SELECT window(ts, '15 seconds') AS w, stddev_pop(price) AS spread, min(price) AS low FROM bids"
    " GROUP BY window(ts, '15 seconds')",
    "q17_union": "SELECT ts, id AS who, 'person' AS what FROM persons WHERE id % 10 = 0 UNION ALL"
    " SELECT ts, seller AS who, 'seller' AS what FROM auctions WHERE id % 50 = 0",
    "q18_long": "SELECT id, item, unix_timestamp(expires) - unix_timestamp(ts) AS lasts FROM auctions WHERE"
    " expires > ts + INTERVAL 30 SECONDS",
    "q19_totals": "SELECT channel, count(*) AS n, sum(price) AS total, max(price) AS high FROM bids GROUP BY channel",
    "q20_by_category": "SELECT category, count(*) AS n, min(initial) AS low FROM auctions GROUP BY category",
    "q21_big_categories": "SELECT category, count(*) AS n FROM auctions GROUP BY category HAVING sum(reserve) % 2 = 0",
}
UPDATING = {"q19_totals": "channel", "q20_by_category": "category", "q21_big_categories": "category"}
"""Queries that update, and the column that identifies a row."""


def tables(count: int, seed: int = 1) -> Iterator[tuple[str, pa.Table]]:
    """`count` rows of all streams in pieces, in the order of their event times within a stream."""
    for stream, maker in makers(seed).items():
        rows, rate, draws = int(count * SHARES[stream]), RATE * SHARES[stream], ColumnGenerators(seed, stream)
        for first in range(0, rows, _PIECE):
            elapsed = np.arange(first, min(first + _PIECE, rows)) / rate
            # Whole milliseconds: Spark's to_json, which the answers are compared with, writes no more.
            ts = pa.array(START + (elapsed * 1e3).astype(np.int64) * 1000).cast(EVENT_TIME)
            columns = maker.rows(ArrivingRows(first, elapsed, ts), draws)
            yield stream, pa.Table.from_arrays(list(columns), schema=maker.schema)
