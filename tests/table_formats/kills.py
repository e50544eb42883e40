"""Totals and rows in tables with transactions while the engine is killed with −9: they equal the batch answer."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.arriving import arrive_parquet
from tests.crash.test_crash import Driver
from tests.table_formats.lake import Lake
from tests.waiting import LIMIT, wait_until

SCRIPT = """
CREATE STREAM s (k INT, v INT) USING parquet OPTIONS (path '{root}/in', maxFilesPerTrigger '1');
CREATE QUERY totals INTO {format} OPTIONS (path '{root}/totals', key 'k') AS
SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k HAVING sum(v) % 7 <> 0;
CREATE QUERY rows INTO {format} OPTIONS (path '{root}/rows') AS SELECT k, v FROM s WHERE v % 10 = 0;
"""


class KillTests:
    """What holds for the sink of every format."""

    @pytest.mark.parametrize("points", [("before-published", "after-commit", "random"), ("random",) * 8])
    def test_the_tables_equal_the_batch_answer(self, lake: Lake, tmp_path: Path, points: tuple[str, ...]) -> None:
        chance = random.Random(len(points))
        (tmp_path / "script.sql").write_text(SCRIPT.format(root=tmp_path, format=lake.format))
        totals: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        rows: Counter[tuple[int, int]] = Counter()
        arrived = 0

        def versions() -> int:
            return len(list((tmp_path / "rows").glob(lake.log)))

        def arrive(files: int) -> None:
            nonlocal arrived
            for _ in range(files):
                pairs = [(chance.randrange(50), chance.randrange(1, 100)) for _ in range(40)]
                for key, value in pairs:
                    totals[key] += value
                    counts[key] += 1
                    rows[key, value] += value % 10 == 0
                table = pa.table(
                    [pa.array(column, pa.int32()) for column in zip(*pairs, strict=True)], names=["k", "v"]
                )
                arrive_parquet(tmp_path / "in" / f"{arrived:05d}.parquet", table, 1_700_000_000 + arrived)
                arrived += 1

        for point in points:
            arrive(6)
            if point == "random":
                before = versions()
                driver = Driver(tmp_path)
                # This life has got through to the table; most of its files wait.
                wait_until(lambda last=before: versions() > last, driver.process)  # type: ignore[misc]
                time.sleep(chance.uniform(0.0, 4.0))
            else:
                (tmp_path / "fuse").touch()
                driver = Driver(tmp_path, point, 2)
                driver.process.wait(LIMIT)
                (tmp_path / "fuse").unlink()
            driver.kill()
        arrive(2)
        final = Driver(tmp_path, once=True)
        final.process.communicate(timeout=LIMIT)
        assert final.process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
        found = {key: (total, n) for key, total, n in lake.rows({"path": f"{tmp_path}/totals"})}
        assert found == {key: (total, counts[key]) for key, total in totals.items() if total % 7}
        assert lake.rows({"path": f"{tmp_path}/rows"}) == +rows
