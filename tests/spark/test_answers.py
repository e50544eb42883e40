"""The answers of several replicas as one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime import Network
from headgate.spark.answers import combined
from headgate.spark.combined_metrics import combined_metrics
from headgate.spark.messages import EpochAnswer, ExchangedRows, HostAddress, Place, WrittenFile
from headgate.sql import Catalog


def place(file: str) -> Place:
    return Place(file, 0, 10, 1)


def answer(replica: int, **values: Any) -> EpochAnswer:
    address = HostAddress("node", f"/socket-{replica}", 10 + replica)
    return EpochAnswer(replica, 7, "a", address, False, place(f"parts/{replica}"), (f"parts/{replica}",), **values)


def failure(query: str, at: float, error: str = "it broke") -> dict[str, Any]:
    return {"query": query, "operator": "select", "detail": "d", "error": error, "at": at, "plan": "p"}


def test_one_answer_stays_as_it_is() -> None:
    one = answer(0, rows={"q": 3}, inline={"q": b"rows"}, waiting=4, failures=(failure("f", 1.0),))
    found = combined([one])
    assert (found.epoch, found.hosts, found.snapshots, found.files) == (7, (one.host,), (one.snapshot,), one.files)
    assert (found.rows, found.inline, found.waiting, found.unknown) == ({"q": 3}, {"q": (b"rows",)}, 4, ())


def test_places_stand_side_by_side_and_figures_add_up() -> None:
    file = WrittenFile("w", "/out", "h", "f", 2)
    first = answer(
        0,
        results=(("q", place("outbox/0")),),
        rows={"q": 3, "w": 2},
        written=(file,),
        malformed={"s": 1},
        arrivals={"q": (3, 30.0, 9.0)},
        waiting=5,
        selected={"s": (100, 10)},
        event_times={"s": 50, "t": 7},
        seconds={"run": 0.5},
    )
    second = answer(
        1,
        results=(("q", place("outbox/1")),),
        rows={"q": 4},
        malformed={"s": 2, "t": 1},
        arrivals={"q": (4, 44.0, 8.0), "r": (1, 1.0, 1.0)},
        waiting=1,
        selected={"s": (50, 20)},
        event_times={"s": 60},
        seconds={"run": 0.25},
    )
    found = combined([first, second])
    assert found.snapshots == (place("parts/0"), place("parts/1"))
    assert found.files == ("parts/0", "parts/1")
    assert found.results == (("q", place("outbox/0")), ("q", place("outbox/1")))
    assert found.rows == {"q": 7, "w": 2}
    assert found.written == (file,)
    assert found.malformed == {"s": 3, "t": 1}
    assert found.arrivals == {"q": (7, 74.0, 8.0), "r": (1, 1.0, 1.0)}
    assert (found.waiting, found.selected, found.event_times) == (6, {"s": (150, 30)}, {"s": 60, "t": 7})
    assert found.seconds == {"run": 0.5}


def test_rows_are_inline_only_if_every_answer_has_its_part() -> None:
    both = combined([answer(0, rows={"q": 1}, inline={"q": b"a"}), answer(1, rows={"q": 1}, inline={"q": b"b"})])
    assert both.inline == {"q": (b"a", b"b")}
    none = combined([answer(0, rows={"q": 1}, inline={"q": b"a"}), answer(1, rows={"q": 10**6})])
    assert none.inline == {}
    only = combined([answer(0, rows={"q": 1}, inline={"q": b"a"}), answer(1)])
    assert only.inline == {"q": (b"a",)}


def test_a_failure_on_one_replica_is_sent_to_the_others() -> None:
    first = answer(0, failures=(failure("q", 5.0, "later"), failure("both", 1.0)), failed={"q": "q failed"})
    second = answer(1, failures=(failure("both", 2.0, "second"),))
    found = combined([first, second])
    assert [(each["query"], each["error"]) for each in found.failures] == [("q", "later"), ("both", "it broke")]
    assert [(each.query, each.error) for each in found.unknown] == [("q", "later")]
    assert found.failed == {"q": "q failed"}


def test_metrics_of_replicas_are_those_of_one_network() -> None:
    catalog = Catalog()
    catalog.execute("CREATE STREAM s (k STRING, v INT) USING parquet OPTIONS (path 'unused');")
    catalog.execute(
        "CREATE QUERY hot AS SELECT v FROM s WHERE v > 2; CREATE QUERY sums AS SELECT k, sum(v) AS t FROM s GROUP BY k;"
    )
    queries = dict(catalog.queries)

    def network(rows: range, only: tuple[Query, ...]) -> Network:
        graph = SharedGraph()
        for query in only:
            graph.add(query)
        made = Network(graph, "cqc")
        table = pa.record_batch({"k": pa.array(["a"] * len(rows)), "v": pa.array(list(rows), pa.int32())})
        made.push("s", table)
        made.run()
        return made

    whole = network(range(10), tuple(queries.values())).metrics()
    parts = [network(range(4), tuple(queries.values())).metrics(), network(range(4, 10), (queries["hot"],)).metrics()]
    found = combined_metrics(parts)
    assert found is not None
    assert found["queries"]["hot"]["rows"] == whole["queries"]["hot"]["rows"] == 7
    assert found["queries"]["sums"]["rows"] == 1
    rows_in = {each["key"]: each["rows_in"] for each in found["operators"]}
    hot = next(each for each in whole["operators"] if each["queries"] == ["hot"])
    assert rows_in[hot["key"]] == hot["rows_in"] == 10
    assert [replica["queries"] for replica in found["replicas"]] == [2, 1]
    seconds = [part["classes"]["normal"]["seconds"] for part in parts]
    assert found["classes"]["normal"]["seconds"] == sum(seconds) > 0
    assert found["classes"]["normal"]["share"] == 1.0
    assert [replica["class_seconds"]["normal"] for replica in found["replicas"]] == seconds
    # The age of the oldest row is not the sum of the ages on all replicas.
    ages = [{**part, "performance": {**part["performance"], "staleness": 2.0 + n}} for n, part in enumerate(parts)]
    aged = combined_metrics(ages)
    assert aged is not None
    assert aged["performance"]["staleness"] == 3.0
    latencies = [part["queries"]["hot"]["latency"]["worst"] for part in parts]
    assert found["queries"]["hot"]["latency"]["worst"] == max(latencies)


def test_a_query_that_answers_once_has_answered_when_nothing_waits_for_it() -> None:
    def answered(*parts: EpochAnswer) -> tuple[str, ...]:
        return combined(parts).answered

    assert answered(answer(0, once={"q": (3, 0), "r": (0, 0)})) == ("q",)
    assert answered(answer(0, once={"q": (3, 0)}), answer(1, once={"q": (0, 5)})) == (), "replica 1 is not done"
    assert answered(answer(0, once={"q": (0, 0)}), answer(1, once={"q": (2, 0)})) == ("q",)
    between = (ExchangedRows("q/0", place("parts/x"), 1.0),)
    assert answered(answer(0, once={"q": (3, 0)}, exchange=between)) == (), "a fragment has sent rows"
    packed = answer(0, once={"q": (3, 1)})
    assert EpochAnswer.unpack(packed.pack()) == packed
