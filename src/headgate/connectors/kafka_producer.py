"""Sends messages from the driver through librdkafka, without a Spark job; optionally one transaction per epoch.

An epoch's transaction also commits the epoch's number, as the offset of a consumer group that belongs to the run:
after a crash the number shows whether the epoch was written. The transaction of an epoch that fails is aborted at once,
that of a process that was killed by the next start. `kafka_messages.py` makes the messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

from headgate.connectors.kafka_cluster import PATIENCE, SERVERS, missing, silent
from headgate.connectors.kafka_security import for_librdkafka
from headgate.graph.secrets import without_secrets
from headgate.spark.results import SinkError

T = TypeVar("T")

_PATIENCE = 120.0
"""Timeout (s) for the brokers to accept the messages of an epoch."""
_ABORTING = 2.0
"""Timeout (s) for the brokers to abort a transaction, for which a stop waits. If they do not answer, they end it after
`_PATIENCE`, or when the run starts again."""
_MAKING = 5.0
"""Timeout (s) for the brokers to create a topic."""
_STEP = 1.0
"""Seconds between two looks at whether the brokers refuse the login."""
_RENEWED = frozenset({"bootstrap.servers", "sasl.password", "ssl.key.pem", "ssl.key.password", "ssl.certificate.pem"})
_OF_PRODUCERS = ("kafka.acks", "kafka.compression.type", "kafka.linger.ms")


def confirmed_by_all(options: Mapping[str, str]) -> bool:
    """Whether all replicas of a partition must have a message: without it the client cannot recognize repetitions."""
    return options.get("kafka.acks", "all") in ("all", "-1")


Headers = list[tuple[str, str | bytes | None]]


class Cluster:
    """The producer that all queries of a run share, for one cluster. Used by the publisher's thread, except `abandon`.

    `exactly_once`: the messages of an epoch are one transaction.
    """

    _open: ClassVar[dict[tuple[object, ...], Cluster]] = {}

    def __init__(self, options: Mapping[str, str], run: str, exactly_once: bool) -> None:
        from confluent_kafka import Producer

        self._options = options
        self._exactly_once = exactly_once
        self._identity = f"headgate-{run}{_variant(options)}"
        self._refused: str | None = None
        self._epoch: int | None = None
        self._in_transaction = False
        self._revoked = False
        self._topics: set[str] = set()
        self._users = 0
        self._refusal: str | None = None
        settings, _ = for_librdkafka(options)
        settings |= {
            "message.timeout.ms": str(int(_PATIENCE * 1000)),
            "topic.metadata.propagation.max.ms": str(int(2 * _MAKING * 1000)),
            "log_level": "0",
        }
        if exactly_once:
            settings |= {
                "transactional.id": self._identity,
                "transaction.timeout.ms": str(int(_PATIENCE * 1000)),
            }
        elif confirmed_by_all(options):
            settings |= {"enable.idempotence": "true"}
        self._producer = Producer({**settings, "error_cb": self._failed})
        self._place = self._reach()
        if exactly_once:
            self._check_alone()
            # Ends open transactions of an earlier process, which is fenced off from now on.
            _retried(lambda: self._producer.init_transactions(_PATIENCE))

    @classmethod
    def of(cls, options: Mapping[str, str], run: str, exactly_once: bool) -> Cluster:
        """The producer for a cluster; SinkError if no broker answers."""
        passed = {name: value for name, value in options.items() if name.startswith("kafka.")}
        key = (tuple(sorted(passed.items())), run, exactly_once)
        if key not in cls._open:
            try:
                cls._open[key] = cls(passed, run, exactly_once)
            except Exception as error:
                raise SinkError(_unreachable(error, passed)) from error
        cls._open[key]._users += 1
        return cls._open[key]

    def _check_alone(self) -> None:
        """SinkError if another producer of the run has the same identity: the brokers would refuse the older one."""
        for other in Cluster._open.values():
            if other._exactly_once and (other._place, other._identity) == (self._place, self._identity):
                one, two = other._options[SERVERS], self._options[SERVERS]
                raise SinkError(
                    f"{SERVERS} is {one} in one query and {two} in another, which are one cluster; with delivery"
                    " exactly_once, write the same in both"
                )

    def _reach(self) -> str:
        """Returns the identity of the cluster when a broker answers. A refused login is an event, for which the client
        tries again and again."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return str(self._producer.list_topics(timeout=_STEP).cluster_id)
            except Exception:
                self._producer.poll(0)
                if self._refusal is not None:
                    raise SinkError(without_secrets(self._refusal, self._options)) from None
                if time.monotonic() > until:
                    raise

    def _failed(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL):
            self._refusal = error.str().partition(": ")[2] or error.str()

    def require(self, topic: str) -> None:
        """SinkError if the topic does not exist and the broker does not create it automatically."""
        until = time.monotonic() + _MAKING
        while (error := self._producer.list_topics(topic, PATIENCE).topics[topic].error) is not None:
            if time.monotonic() > until:
                raise SinkError(missing(topic, self._options[SERVERS], "option topic", error.str()))
            time.sleep(0.05)

    def send(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers) -> None:
        """Queues a message."""
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers or None, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.05)

    def begin(self, epoch: int, topic: str) -> None:
        """Begins an epoch: the messages that follow belong to it and go to `topic`."""
        self._check_usable()
        if self._exactly_once and self._epoch != epoch:
            self._producer.begin_transaction()
            self._in_transaction = True
        self._epoch = epoch
        self._topics.add(topic)

    def end(self) -> None:
        """Returns when the brokers have all messages of the epoch."""
        if self._epoch is None:
            return
        self._check_usable()
        epoch, self._epoch = self._epoch, None
        topics, self._topics = self._topics, set()
        left = self._producer.flush(_PATIENCE)
        if left or self._refused is not None:
            raise SinkError(self._refused or f"{left:,} messages were not taken within {_PATIENCE:g} s")
        if self._exactly_once:
            from confluent_kafka import TopicPartition

            places = [TopicPartition(topic, 0, epoch + 1) for topic in sorted(topics)]
            consumer = self._consumer()
            try:
                group = consumer.consumer_group_metadata()
                _retried(lambda: self._producer.send_offsets_to_transaction(places, group, _PATIENCE))
            finally:
                consumer.close()
            _retried(lambda: self._producer.commit_transaction(_PATIENCE))
            self._in_transaction = False

    def _check_usable(self) -> None:
        """SinkError after `revoke`: the rest of an epoch must not become a transaction of its own."""
        if self._revoked:
            raise SinkError("the transaction of the epoch was aborted")

    def revoke(self) -> None:
        """Aborts the transaction of an epoch that has not ended: readers of committed messages would wait for its end.
        Raises nothing, and takes no more messages: what has failed before is what counts. Any thread may call it."""
        if not self._exactly_once or self._revoked:
            return
        # Once: each of many queries asks for it, and brokers may not answer.
        self._revoked = True
        self._forget()
        if self._in_transaction:
            # The brokers may be gone, another process may have fenced this one, or the commit may be under way.
            with suppress(Exception):
                self._producer.abort_transaction(_ABORTING)
                self._in_transaction = False

    def has(self, topic: str, epoch: int) -> bool:
        """Whether an earlier transaction has committed the messages of an epoch to a topic."""
        if not self._exactly_once:
            return False
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            [place] = _retried(lambda: consumer.committed([TopicPartition(topic, 0)], _PATIENCE))
        finally:
            consumer.close()
        return bool(place.offset > epoch)

    def close(self) -> None:
        """Closes the producer when its last user has closed it."""
        self._users -= 1
        if self._users == 0:
            if not self._exactly_once:
                # What is left in a transaction belongs to an epoch that has failed.
                self._producer.flush(_PATIENCE)
            self.abandon()

    def abandon(self) -> None:
        """Ends its use, also while another thread sends: later writers get another producer."""
        self._forget()
        self.revoke()

    def _forget(self) -> None:
        Cluster._open = {key: each for key, each in Cluster._open.items() if each is not self}

    def reason(self, error: Exception) -> str:
        """An error in one line, without secrets."""
        return _reason(error, self._options)

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        secure = {name: value for name, value in self._options.items() if name not in _OF_PRODUCERS}
        settings, _ = for_librdkafka(secure)
        return Consumer({**settings, "group.id": self._identity, "enable.auto.commit": False, "log_level": "0"})

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused = f"topic {message.topic()}: {error.str()}"


def _retried(action: Callable[[], T]) -> T:
    """What an action returns, tried again while the brokers are not ready for it: they choose who keeps the offsets of
    the group, or still end the transaction that an earlier process has left open."""
    from confluent_kafka import KafkaError

    passing = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
    )
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return action()
        except Exception as error:
            said = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
            again = said is not None and (said.retriable() or said.code() in passing)
            if not again or time.monotonic() > until:
                raise
        time.sleep(0.1)


def _unreachable(error: Exception, options: Mapping[str, str]) -> str:
    """Why a cluster does not answer."""
    from confluent_kafka import KafkaError

    if isinstance(error, SinkError):
        return str(error)
    code = error.args[0].code() if error.args and hasattr(error.args[0], "code") else None
    gone = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
    return silent(options[SERVERS]) if code in gone else _reason(error, options)


def _variant(options: Mapping[str, str]) -> str:
    """What distinguishes the producers of a run on one cluster: their settings but for its address, which may get
    another broker, and for secrets, which may be renewed. Empty if there are none."""
    settings, _ = for_librdkafka(options)
    own = {name: value for name, value in settings.items() if name not in _RENEWED}
    return "-" + sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:8] if own else ""


def _reason(error: Exception, options: Mapping[str, str]) -> str:
    said = str(error.args[0].str()) if error.args and hasattr(error.args[0], "str") else str(error)
    return without_secrets(said.splitlines()[0] if said else type(error).__name__, options)
