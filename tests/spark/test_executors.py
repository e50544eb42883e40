"""How many replicas a cluster gets and how many hosts a node, with executors that register one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.spark import executors, replicas
from headgate.spark.executors import FIRST, PATIENCE, QUIET, Executor, await_executors
from headgate.spark.replicas import default_replicas, hosts_on_a_node


class Summary:
    def __init__(self, name: str, node: str, cores: int) -> None:
        self._known = name, f"{node}:1234", cores

    def id(self) -> str:
        return self._known[0]

    def hostPort(self) -> str:  # noqa: N802 - Spark's name
        return self._known[1]

    def totalCores(self) -> int:  # noqa: N802 - Spark's name
        return self._known[2]


class FakeSpark:
    """A session on a cluster: executors register at given times (s), by a clock that `sleep` advances."""

    def __init__(self, *arrivals: tuple[float, int], master: str = "spark://m:7077", **conf: str) -> None:
        self.now = 0.0
        self._conf = {name.replace("_", "."): value for name, value in conf.items()}
        self._arrivals = arrivals
        self.master = master
        self.defaultParallelism = 200

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        return self

    _jsc = sparkContext

    def sc(self) -> Any:
        return self

    statusStore = getConf = sc  # noqa: N815 - Spark's names

    def get(self, name: str, default: Any = None) -> Any:
        return self._conf.get(name, default)

    def executorList(self, _: bool) -> Any:  # noqa: N802 - Spark's name
        found = [Summary("driver", "d", 0)]
        found += [
            Summary(str(number), f"n{number // 2}", cores)
            for number, (at, cores) in enumerate(self._arrivals)
            if at <= self.now
        ]

        class Seq:
            size = staticmethod(lambda: len(found))
            apply = staticmethod(lambda number: found[number])

        return Seq

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("arrivals", "cores", "until", "count"),
    [
        ([(3.0, 2), (4.5, 2)], 4, 4.5, 2),
        ([(3.0, 4), (4.5, 4)], 4, 3.0, 1),
        # More replicas than cores, or as many as there are: until nobody comes any more.
        ([(3.0, 2), (4.5, 2)], 8, 4.5 + QUIET, 2),
        ([(3.0, 2), (4.5, 2)], None, 4.5 + QUIET, 2),
        ([(3.0 + n, 1) for n in range(60)], None, 3.0 + PATIENCE, 11),
        ([], 2, FIRST, 0),
    ],
)
def test_waits_for_executors(arrivals: list[tuple[float, int]], cores: int | None, until: float, count: int) -> None:
    spark = FakeSpark(*arrivals)
    assert len(await_executors(spark, cores, spark.clock, spark.sleep)) == count
    assert spark.now == pytest.approx(until, abs=0.1)


def test_the_cores_that_settings_promise() -> None:
    spark = FakeSpark((1.0, 2), (9.0, 2), spark_executor_instances="2", spark_executor_cores="2")
    assert len(await_executors(spark, None, spark.clock, lambda _: spark.sleep(0.5))) == 1
    assert default_replicas(spark) == 4
    spark = FakeSpark((0.0, 3), spark_executor_instances="1")
    spark.now = 1.0
    assert executors.promised_cores(spark) is None


def test_the_default_is_one_replica_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever `spark.default.parallelism` says."""
    spark = FakeSpark((1.0, 2), (1.5, 3), spark_default_parallelism="200")
    monkeypatch.setattr(
        replicas, "await_executors", lambda _, cores: await_executors(spark, cores, spark.clock, spark.sleep)
    )
    assert default_replicas(spark) == 5
    assert default_replicas(FakeSpark(master="local[4]")) == 1


def test_hosts_on_a_node() -> None:
    spark = FakeSpark((0.0, 2), (0.0, 2), (0.0, 2), (0.0, 2))
    assert executors.registered(spark)[3] == Executor("3", "n1", 2)
    # Two executors on each of two nodes.
    assert [hosts_on_a_node(spark, count) for count in (1, 2, 4, 8)] == [1, 2, 2, 4]
    assert hosts_on_a_node(FakeSpark(master="local[4]"), 3) == 3
