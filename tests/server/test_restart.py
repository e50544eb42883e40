"""What is registered survives a server that is killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.arriving import arrive_json
from tests.server.process import server_process
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with server_process(tmp_path) as server:
        server.await_running()
        client = server.client
        client.execute(
            """CREATE CLASS critical WITH (priority = 6);
            CREATE STREAM s (v INT) USING json OPTIONS (path 'in');
            CREATE QUERY total CLASS critical INTO json OPTIONS (path 'out') AS SELECT v FROM s WHERE v >= 0;
            CREATE QUERY sums AS SELECT v % 2 AS odd, sum(v) AS total FROM s GROUP BY v % 2;
            CREATE QUERY gone AS SELECT v FROM s; CREATE QUERY waits AS SELECT v FROM s"""
        )
        client.drop("gone")
        client.pause("waits")
        client.policy = "chain"
        arrive_json(tmp_path / "in" / "0.json", [{"v": n} for n in range(10)])
        wait_until(lambda: client.results("sums").num_rows == 2, server.process)
        server.end(signal.SIGKILL)
    with server_process(tmp_path) as server:
        server.await_running()
        client = server.client
        assert (sorted(client.queries), client.policy) == (["sums", "total", "waits"], "chain")
        assert client.queries["waits"]["state"] == "paused"
        assert client.queries["total"]["class"] == "critical"
        assert client.status()["not_restored"] == []
        arrive_json(tmp_path / "in" / "1.json", [{"v": 100}, {"v": 101}])

        def sums() -> dict[int, int]:
            return {row["odd"]: row["total"] for row in client.results("sums").to_pylist()}

        # The state of before is in the sums.
        wait_until(lambda: sums() == {0: 120, 1: 126}, server.process)
        assert server.end() == 0
        assert "Traceback" not in server.output
