"""Exactly once on brokers that ask for a login: drivers are killed around a transaction, the broker in between."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from headgate.feeder.broker import Broker
from tests.crash.driver import KAFKA_POINTS
from tests.crash.test_crash import Driver
from tests.kafka.logins import MECHANISMS, SECRET, Login
from tests.kafka.topics import Topics
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.slow

ROWS = 600
QUERIES = {"copies": "SELECT v FROM s", "thirds": "SELECT v FROM s WHERE v % 3 = 0"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_is_lost_or_doubled_with_a_login(guarded: Broker, tmp_path: Path, mechanism: str) -> None:
    login = Login(mechanism)
    topics = Topics(guarded.servers, f"once-{mechanism}", login.client)
    topics.send("rows", [{"v": number} for number in range(ROWS)])
    (tmp_path / "script.sql").write_text(_script(topics, login))
    fuse = tmp_path / "fuse"
    for point in KAFKA_POINTS:
        fuse.unlink(missing_ok=True)
        driver = Driver(tmp_path, point)
        driver.wait_for_commit()
        fuse.touch()
        assert driver.process.wait(LIMIT) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
        driver.kill()
    driver = Driver(tmp_path)
    driver.wait_for_commit()
    guarded.kill()
    before = Driver.newest(tmp_path)
    guarded.start()
    # The brokers are still choosing who keeps transactions and offsets.
    wait_until(lambda: Driver.newest(tmp_path) != before, driver.process)
    driver.kill()
    final = Driver(tmp_path, once=True)
    final.process.communicate(timeout=LIMIT)
    log = (tmp_path / "log").read_text()
    assert final.process.returncode == 0, log[-3000:]
    assert SECRET not in log
    expected = {"copies": range(ROWS), "thirds": range(0, ROWS, 3)}
    for name, values in expected.items():
        assert Counter(message.value for message in topics.read(name)) == Counter(f'{{"v":{v}}}' for v in values)
    sent = sum(len(topics.read(name, committed=False)) for name in QUERIES)
    print(f"{sent - ROWS - ROWS // 3} messages of transactions that were cut off")


def _script(topics: Topics, login: Login) -> str:
    each = str(ROWS // 40)
    place = topics.options(
        subscribe=topics.name("rows"),
        startingOffsets="earliest",
        value_format="json",
        maxOffsetsPerTrigger=each,
        **login.options,
    )
    statements = [f"CREATE STREAM s (v INT) USING kafka {place}"]
    for name, select in QUERIES.items():
        options = topics.options(topic=topics.name(name), delivery="exactly_once", **login.options)
        statements.append(f"CREATE QUERY {name} INTO kafka {options} AS {select}")
    return ";\n".join(statements) + ";\n"
