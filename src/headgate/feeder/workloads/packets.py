"""A network: packets between hosts, logins, and attacks that develop: an attacker scans ports, then tries passwords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, RowMaker
from headgate.feeder.workloads.episodes import Episodes

SHARES = {"packets": 0.95, "logins": 0.05}
KEYS = {"packets": "source", "logins": "address"}
CLIENTS, SERVERS, ATTACKERS = 2000, 50, 8
_ATTACK = 0.2
"""Share of the rows that belong to attackers while all of them attack at full strength."""
_CLIENTS = pa.array([f"10.1.{number // 250}.{number % 250 + 1}" for number in range(CLIENTS)])
_SERVERS = pa.array([f"10.0.0.{number + 1}" for number in range(SERVERS)])
_SOURCES = pa.concat_arrays([_CLIENTS, pa.array([f"203.0.113.{number + 1}" for number in range(ATTACKERS)])])
_PROTOCOLS = pa.array(["tcp", "udp", "icmp"])
_PORTS = np.array([443, 80, 22, 25, 53, 3306, 5432, 8080], np.int32)
_FLAGS = pa.array(["A", "PA", "S", "SA", "F", ""])
_SYN, _NONE = 2, 5
_USERS = pa.array([f"user{number}" for number in range(200)] + ["root", "admin"])


def makers(seed: int) -> Mapping[str, RowMaker]:
    """Packets and logins with the same attacks."""
    attacks = Episodes(seed, "attacks", ATTACKERS, gap=120.0, shortest=10.0, longest=40.0)
    return {"packets": Packets(attacks), "logins": Logins(attacks)}


def _attacker(attacks: Episodes, arriving: ArrivingRows, draws: ColumnGenerators) -> tuple[np.ndarray, np.ndarray]:
    """A possible attacker for each row, and whether the row is part of its attack."""
    count = len(arriving)
    who = (draws["attacker"].random(count) * ATTACKERS).astype(np.int64)
    return who, draws["attack"].random(count) < _ATTACK * attacks.strength(who, arriving.elapsed)


@dataclass(frozen=True)
class Packets:
    """Packets. An attacker sends short packets with the flag S to one server, to port after port."""

    schema = pa.schema(
        {
            "ts": EVENT_TIME,
            "source": pa.string(),
            "target": pa.string(),
            "protocol": pa.string(),
            "port": pa.int32(),
            "length": pa.int32(),
            "flags": pa.string(),
        }
    )
    event_time = "ts"
    attacks: Episodes

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        who, attack = _attacker(self.attacks, arriving, draws)
        client = (draws["source"].random(count) * CLIENTS).astype(np.int64)
        # Some servers are much busier than others.
        server = (draws["target"].random(count) ** 3 * SERVERS).astype(np.int64)
        protocol = np.searchsorted([0.85, 0.98], draws["protocol"].random(count))
        port = _PORTS[(draws["port"].random(count) ** 2 * len(_PORTS)).astype(np.int64)]
        long = draws["long"].random(count) < 0.4
        length = np.where(long, 1500, 40 + draws["length"].random(count) * 500).astype(np.int32)
        flags = (draws["flags"].random(count) ** 2 * _NONE).astype(np.int64)
        flags = np.where(protocol == 0, flags, _NONE)
        return [
            arriving.ts,
            _SOURCES.take(pa.array(np.where(attack, CLIENTS + who, client))),
            _SERVERS.take(pa.array(np.where(attack, who % SERVERS, server))),
            _PROTOCOLS.take(pa.array(np.where(attack, 0, protocol))),
            pa.array(np.where(attack, 1 + arriving.numbers % 65535, port).astype(np.int32)),
            pa.array(np.where(attack, 40, length).astype(np.int32)),
            _FLAGS.take(pa.array(np.where(attack, _SYN, flags))),
        ]


@dataclass(frozen=True)
class Logins:
    """Logins at the servers: nearly all succeed, except those of attackers."""

    schema = pa.schema(
        {"ts": EVENT_TIME, "address": pa.string(), "account": pa.string(), "success": pa.bool_()},
    )
    event_time = "ts"
    attacks: Episodes

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        count = len(arriving)
        who, attack = _attacker(self.attacks, arriving, draws)
        client = (draws["address"].random(count) * CLIENTS).astype(np.int64)
        user = (draws["account"].random(count) * len(_USERS)).astype(np.int64)
        return [
            arriving.ts,
            _SOURCES.take(pa.array(np.where(attack, CLIENTS + who, client))),
            _USERS.take(pa.array(np.where(attack, len(_USERS) - 1 - who % 2, user))),
            pa.array((draws["success"].random(count) < 0.97) & ~attack),
        ]
