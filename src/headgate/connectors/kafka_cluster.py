"""Checks that a Kafka cluster answers and has the topics of a stream, with Kafka's own client in Spark's JVM.

Spark would wait three minutes for a missing broker, and then report only a timeout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from headgate.graph.secrets import without_secrets
from headgate.spark.packages import see_added
from headgate.spark.spark_errors import expecting_errors, reason

SERVERS = "kafka.bootstrap.servers"
PATIENCE = 15.0
"""Timeout (s) of the first request to a cluster."""
_MAKING = "5000"
"""Milliseconds for the brokers to make a topic."""
_LISTED = 10
"""Maximum number of topics that a message lists."""
_ASKED: set[tuple[object, ...]] = set()
"""Checks that have succeeded in this process; later outages are left to Kafka's clients, which wait."""


class ClusterProblem(ValueError):
    """The cluster cannot be used; the message says why and what to do."""


def topic_problem(topic: str) -> str | None:
    """Why Kafka refuses the name of a topic; None if it does not.

    >>> topic_problem("sensors.raw"), topic_problem("a b")
    (None, "'a b' is no name of a topic: write letters, digits, '.', '_' and '-', at most 249")
    """
    if re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) and topic not in (".", ".."):
        return None
    return f"'{topic}' is no name of a topic: write letters, digits, '.', '_' and '-', at most 249"


def silent(servers: str) -> str:
    """The message for a cluster that does not answer."""
    return f"no broker answers at {servers} within {PATIENCE:g} s; start it, or correct {SERVERS}"


def subscribed(options: Mapping[str, str]) -> list[str]:
    """The topics that a stream names; none if it gives a pattern."""
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",") if topic.strip()]
    try:
        return list(json.loads(options.get("assign", "{}")))
    except ValueError:
        # Spark reports the error.
        return []


def check(spark: Any, options: Mapping[str, str], topics: Sequence[str] = ()) -> None:
    """ClusterProblem if no broker answers or a topic is missing. `options`: those of a source or sink."""
    passed = {name: value for name, value in options.items() if name.startswith("kafka.")}
    asked = (spark.sparkContext.applicationId, tuple(sorted(passed.items())), tuple(topics))
    if asked in _ASKED:
        return
    has = _topics(spark, passed)
    for topic in topics:
        if topic not in has:
            near = get_close_matches(topic, has, n=1)
            shown = ", ".join(sorted(has)[:_LISTED]) + (", …" if len(has) > _LISTED else "")
            hint = f"did you mean {near[0]}?" if near else f"it has {shown}" if has else "it has none"
            raise ClusterProblem(f"there is no topic {topic} on {passed[SERVERS]}; {hint}")
    _ASKED.add(asked)


def require(spark: Any, options: Mapping[str, str], topic: str, option: str) -> None:
    """ClusterProblem if no broker answers, or if a topic that is written does not exist and none makes it."""
    passed = {name: value for name, value in options.items() if name.startswith("kafka.")}
    asked = (spark.sparkContext.applicationId, tuple(sorted(passed.items())), topic, "written")
    if asked in _ASKED:
        return
    if topic not in _topics(spark, passed) and not _made(spark, passed, topic):
        raise ClusterProblem(missing(topic, passed[SERVERS], f"option {option}"))
    _ASKED.add(asked)


def absent(spark: Any, options: Mapping[str, str], topics: Iterable[str]) -> list[str]:
    """Those of the topics that do not exist now; ClusterProblem if no broker answers."""
    has = _topics(spark, {name: value for name, value in options.items() if name.startswith("kafka.")})
    return [topic for topic in topics if topic not in has]


def missing(topic: str, servers: str, named_by: str, said: str = "it does not exist") -> str:
    """The message for a topic that cannot be written. `named_by`: the option or the column that names it."""
    return f"topic {topic} on {servers}: {said}; make it with kafka-topics.sh --create, or correct the {named_by}"


@contextmanager
def _classes(spark: Any) -> Iterator[None]:
    """Within it Kafka finds its classes by name: they may be visible only to the session's class loader."""
    thread = spark.sparkContext._jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(spark._jsparkSession.sharedState().jarClassLoader())
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


def _made(spark: Any, passed: Mapping[str, str], topic: str) -> bool:
    """Whether a broker makes a topic when a producer asks for it."""
    context = spark.sparkContext
    properties = context._jvm.java.util.Properties()
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    given = {**passed, "key.serializer": serializer, "value.serializer": serializer, "max.block.ms": _MAKING}
    for name, value in given.items():
        properties.put(name.removeprefix("kafka."), value)
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    classes = context._gateway.new_array(context._jvm.java.lang.Class, 1)
    values = context._gateway.new_array(context._jvm.java.lang.Object, 1)
    classes[0], values[0] = properties.getClass(), properties
    producer = None
    try:
        with _classes(spark), expecting_errors():
            made = loader.loadClass("org.apache.kafka.clients.producer.KafkaProducer")
            producer = made.getConstructor(classes).newInstance(values)
            producer.partitionsFor(topic)
            return True
    except Exception as error:
        if "TimeoutException" in str(error) or "UnknownTopicOrPartition" in str(error):
            return False
        raise ClusterProblem(without_secrets(reason(error), passed)) from error
    finally:
        if producer is not None:
            producer.close(context._jvm.java.time.Duration.ofSeconds(1))


def _topics(spark: Any, passed: Mapping[str, str]) -> set[str]:
    """The names of all topics."""
    see_added(spark)
    context = spark.sparkContext
    properties = context._jvm.java.util.Properties()
    limit = str(int(PATIENCE * 1000))
    for name, value in {**passed, "kafka.default.api.timeout.ms": limit, "kafka.request.timeout.ms": limit}.items():
        properties.put(name.removeprefix("kafka."), value)
    # Kafka's classes may be visible only to the session's class loader, which py4j does not use.
    admin = spark._jsparkSession.sharedState().jarClassLoader().loadClass("org.apache.kafka.clients.admin.AdminClient")
    types = context._gateway.new_array(context._jvm.java.lang.Class, 1)
    values = context._gateway.new_array(context._jvm.java.lang.Object, 1)
    types[0], values[0] = properties.getClass(), properties
    client = None
    try:
        with _classes(spark), expecting_errors():
            client = admin.getMethod("create", types).invoke(None, values)
            return set(client.listTopics().names().get())
    except Exception as error:
        said = silent(passed[SERVERS]) if "TimeoutException" in str(error) else reason(error)
        raise ClusterProblem(without_secrets(said, passed)) from error
    finally:
        if client is not None:
            client.close(context._jvm.java.time.Duration.ofSeconds(1))
