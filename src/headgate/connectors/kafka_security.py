"""Settings of Kafka's client in Java as librdkafka's: common ones, protocols, logins by user and password, PEM keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAME = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.acks",
        "kafka.compression.type",
        "kafka.linger.ms",
        "kafka.client.id",
        "kafka.security.protocol",
        "kafka.ssl.key.password",
    }
)
"""Options that mean the same to both clients."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.PlainLoginModule|scram\.ScramLoginModule)\s+required\s+(.*?);\s*",
    re.DOTALL,
)
_PART = re.compile(r"""\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
_PEM = {
    "kafka.ssl.truststore.certificates": ("ssl.ca.pem",),
    "kafka.ssl.truststore.location": ("ssl.ca.location",),
    "kafka.ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "kafka.ssl.keystore.key": ("ssl.key.pem",),
    "kafka.ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
"""Options that are texts or files in PEM, if the type of their store says so."""
_STORES = ("kafka.ssl.truststore.type", "kafka.ssl.keystore.type")
_NAMES = "kafka.ssl.endpoint.identification.algorithm"


def for_librdkafka(options: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The settings for librdkafka, and the first option that cannot be translated; None if all can.

    >>> for_librdkafka({"kafka.bootstrap.servers": "h:1", "kafka.sasl.mechanism": "PLAIN"})
    ({'bootstrap.servers': 'h:1', 'sasl.mechanism': 'PLAIN'}, None)
    """
    settings: dict[str, str] = {}
    for name, value in options.items():
        if not name.startswith("kafka."):
            continue
        found = _setting(name, value, options)
        if found is None:
            return settings, name
        settings |= found
    return settings, None


def _setting(name: str, value: str, options: Mapping[str, str]) -> dict[str, str] | None:
    """What one option means; None if it cannot be said."""
    if name in _SAME:
        return {name.removeprefix("kafka."): value}
    if name == "kafka.sasl.mechanism":
        return {"sasl.mechanism": value} if value in _MECHANISMS else None
    if name == "kafka.sasl.jaas.config":
        return _login(value)
    if name in _STORES:
        return {} if value == "PEM" else None
    if name in _PEM:
        store = next(each for each in _STORES if name.startswith(each.removesuffix("type")))
        return dict.fromkeys(_PEM[name], value) if options.get(store) == "PEM" else None
    if name == _NAMES and value.lower() in ("", "https"):
        return {"ssl.endpoint.identification.algorithm": value.lower() or "none"}
    return None


def _login(text: str) -> dict[str, str] | None:
    """User and password of a JAAS configuration.

    >>> _login('org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\\\"b";')
    {'sasl.username': 'me', 'sasl.password': 'a"b'}
    """
    module = _LOGIN.fullmatch(text)
    if module is None:
        return None
    given = {key: double or single or plain for key, double, single, plain in _PART.findall(module[1])}
    if set(given) != {"username", "password"} or _PART.sub("", module[1]).strip():
        return None
    return {f"sasl.{key}": re.sub(r"\\(.)", r"\1", value) for key, value in sorted(given.items(), reverse=True)}
