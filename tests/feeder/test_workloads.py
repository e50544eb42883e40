"""The generated rows mean something: fires develop, bids refer to auctions, attackers scan ports."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate.feeder import workload
from headgate.feeder.workloads.auctions import FIRST
from headgate.feeder.workloads.episodes import Episodes
from tests.feeder.test_feeder import Kept


def fed(name: str, seconds: float, rate: float) -> Kept:
    from headgate.feeder import Feeder

    kept = Kept()
    Feeder(kept, workload(name, rate, seed=7), seed=7, every=1.0, seconds=seconds, start=0.0).advance(seconds)
    return kept


def test_fires_begin_grow_and_end() -> None:
    rows = fed("sensors", 600.0, 200.0).rows("sensors")
    hot = pc.and_(pc.greater(rows["temperature"], 45), pc.less(rows["humidity"], 20))
    burning = rows.filter(hot)
    assert 0.01 < burning.num_rows / rows.num_rows < 0.2
    # A fire is at one place for some time: what burns there is not spread over the ten minutes.
    for place in set(burning["location"].to_pylist()):
        here = burning.filter(pc.equal(burning["location"], place))["ts"].cast(pa.int64()).to_numpy() / 1e6
        fires = np.split(here, np.flatnonzero(np.diff(here) > 15) + 1)
        assert all(fire[-1] - fire[0] < 60 for fire in fires)
    # Each warms up first: before the first hot reading of a place, there are warm ones.
    first = burning.slice(0, 1)
    before = rows.filter(pc.and_(pc.equal(rows["location"], first["location"][0]), pc.less(rows["ts"], first["ts"][0])))
    assert pc.max(before["temperature"]).as_py() > 34
    assert pc.mean(rows.filter(hot)["smoke"]).as_py() > 0.5 > pc.mean(rows["smoke"]).as_py()


def test_episodes_do_not_overlap_at_a_place() -> None:
    episodes = Episodes(1, "test", 5, gap=30.0, shortest=10.0, longest=20.0)
    moments = np.arange(0.0, 3600.0, 0.01)
    for place in range(5):
        age = episodes.age(np.full(len(moments), place), moments)
        active = age <= 1
        assert active.mean() == pytest.approx(15 / 45, abs=0.1)
        strength = episodes.strength(np.full(len(moments), place), moments)
        assert (strength[~active] == 0).all()
        assert strength.max() == pytest.approx(1.0)
        # Ages only grow within an episode.
        assert (np.diff(age)[active[1:] & active[:-1]] > 0).all()


def test_bids_refer_to_auctions_and_auctions_to_persons() -> None:
    kept = fed("auctions", 20.0, 5000.0)
    persons, auctions, bids = (kept.rows(name) for name in ("persons", "auctions", "bids"))
    assert persons["id"].to_pylist() == list(range(FIRST, FIRST + persons.num_rows))
    assert auctions["id"].to_pylist() == list(range(FIRST, FIRST + auctions.num_rows))
    for rows, column, referred in (
        (bids, "auction", auctions),
        (bids, "bidder", persons),
        (auctions, "seller", persons),
    ):
        known = pc.is_in(rows[column], referred["id"].combine_chunks())
        # Arrivals are random: the newest may be a little ahead of what it refers to.
        assert pc.mean(known.cast(pa.float64())).as_py() > 0.98
    counts = pc.value_counts(bids["auction"].combine_chunks()).field("counts")
    assert pc.max(counts).as_py() > 20 * pc.mean(counts).as_py()
    assert pc.min(bids["price"]).as_py() >= 100
    assert pc.all(pc.greater(auctions["expires"], auctions["ts"])).as_py()
    assert pc.all(pc.greater(auctions["reserve"], auctions["initial"])).as_py()


def test_attackers_scan_ports_and_fail_to_log_in() -> None:
    kept = fed("packets", 300.0, 2000.0)
    packets, logins = kept.rows("packets"), kept.rows("logins")
    evil = packets.filter(pc.starts_with(packets["source"], "203."))
    usual = packets.filter(pc.starts_with(packets["source"], "10."))
    assert 0.001 < evil.num_rows / packets.num_rows < 0.2
    assert pc.count_distinct(evil["port"]).as_py() > 1000 > pc.count_distinct(usual["port"]).as_py()
    assert not pc.any(logins.filter(pc.starts_with(logins["address"], "203."))["success"]).as_py()
    usual = logins.filter(pc.starts_with(logins["address"], "10."))
    assert pc.mean(usual["success"].cast(pa.float64())).as_py() == pytest.approx(0.97, abs=0.02)
