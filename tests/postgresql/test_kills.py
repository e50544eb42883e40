"""Totals in PostgreSQL while the engine is killed with −9 again and again: the table equals the batch answer."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.arriving import arrive_parquet
from tests.crash.test_crash import Driver
from tests.postgresql.server import Server
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.slow

SCRIPT = """
CREATE STREAM s (k INT, v INT) USING parquet OPTIONS (path '{root}/in', maxFilesPerTrigger '1');
CREATE QUERY totals INTO postgresql OPTIONS ({place}, table '{name}_totals', key 'k') AS
SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k HAVING sum(v) % 7 <> 0;
CREATE QUERY rows INTO postgresql OPTIONS ({place}, table '{name}_rows') AS SELECT k, v FROM s WHERE v % 10 = 0;
"""


@pytest.mark.parametrize(("keys", "epochs", "kills"), [(200, 40, 2), (10_000, 1_000, 20)])
def test_the_table_equals_the_batch_answer(tmp_path: Path, server: Server, keys: int, epochs: int, kills: int) -> None:
    chance = random.Random(keys)
    name = f"killed_{kills}"
    place = f"url '{server.url}', user '{server.user}', password '{server.password}'"
    (tmp_path / "script.sql").write_text(SCRIPT.format(root=tmp_path, place=place, name=name))
    totals: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    rows: Counter[tuple[int, int]] = Counter()

    def arrive(first: int, last: int) -> None:
        for number in range(first, last):
            pairs = [(chance.randrange(keys), chance.randrange(1, 100)) for _ in range(keys // 10)]
            for key, value in pairs:
                totals[key] += value
                counts[key] += 1
                rows[key, value] += value % 10 == 0
            table = pa.table([pa.array(column, pa.int32()) for column in zip(*pairs, strict=True)], names=["k", "v"])
            arrive_parquet(tmp_path / "in" / f"{number:05d}.parquet", table, 1_700_000_000 + number)

    share = epochs // (kills + 1)
    for life in range(kills):
        driver = Driver(tmp_path)
        arrive(life * share, (life + 1) * share)
        before = _published(server, name)
        # The epoch's number moves with the table: a life has got through to PostgreSQL, and most of its files wait.
        wait_until(lambda last=before: _published(server, name) > last, driver.process)
        time.sleep(chance.uniform(0.0, 1.0))
        driver.kill()
    arrive(kills * share, epochs)
    final = Driver(tmp_path, once=True)
    final.process.communicate(timeout=4 * LIMIT)
    assert final.process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    found = {int(k): (int(t), int(n)) for k, t, n in server.ask(f"SELECT k, total, n FROM {name}_totals")}
    assert found == {key: (total, counts[key]) for key, total in totals.items() if total % 7}
    assert Counter((int(k), int(v)) for k, v in server.ask(f"SELECT k, v FROM {name}_rows")) == +rows
    # A kill between Spark's log of files and its log of batches: the next batch has the file of the one that began.
    assert _published(server, name) >= epochs - 1 - kills
    assert server.password not in (tmp_path / "log").read_text()


def _published(server: Server, name: str) -> int:
    """The newest epoch that PostgreSQL has noted; -1 before the first."""
    if server.ask("SELECT to_regclass('headgate_epochs') IS NULL") == [["t"]]:
        return -1
    asked = f"SELECT coalesce(max(epoch), -1) FROM headgate_epochs WHERE target = '{name}_rows'"
    return int(server.ask(asked)[0][0])
