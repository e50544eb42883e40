"""One quick upsert into PostgreSQL, for every run of the tests; it skips where there is no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json
from tests.connectors.declared import clause
from tests.postgresql.server import Server
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


def test_totals_are_replaced(spark: Any, tmp_path: Path, server: Server) -> None:
    place = {"url": server.url, "user": server.user, "password": server.password, "table": "upserts", "key": "k"}
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    (tmp_path / "in").mkdir()
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    select = "SELECT k, sum(v) AS total FROM s GROUP BY k"
    engine.execute(f"CREATE QUERY totals INTO postgresql {clause(place)} AS {select}")
    engine.start()
    try:
        for number, (rows, totals) in enumerate(
            [([("a", 1), ("b", 2)], [["a", "1"], ["b", "2"]]), ([("a", 3)], [["a", "4"], ["b", "2"]])]
        ):
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": k, "v": v} for k, v in rows])
            wait_until(lambda wanted=totals: sorted(server.ask("SELECT k, total FROM upserts")) == wanted)
    finally:
        engine.stop()
