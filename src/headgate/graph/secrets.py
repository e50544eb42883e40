"""Secrets in options: which options hold one, texts and options without them, and references to the environment.

Passwords reach only the system that asks for them: plans in the checkpoint, messages and `explain` have stars instead.
`${env:NAME}` in the value of an option stands for a variable of the driver's environment: it is replaced where a
source, table or sink is opened, and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

STARS = "***"
_NAMES = re.compile(
    r"(?i)passw|passphrase|pass($|[._-])|secret|token|jaas|credential|private|signature"
    r"|(api|access|account)[._-]?key|ssl\..*key$"
)
# A password inside of a value: that of a URL, of a JAAS configuration, of a connection string.
_INSIDE = re.compile(r"""(?i)((?:password|passwd|pwd|secret|token)\s*=\s*)(\\?"[^"]*"|\\?'[^']*'|[^&;,\s'"\\]+)""")
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@'\"]+@")
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")
_SHORTEST = 4
"""A shorter value is hidden in options, but not searched for in texts: it would be found everywhere."""


def is_secret(option: str) -> bool:
    """Whether the value of an option is a secret, by its name.

    >>> [is_secret(name) for name in ("kafka.ssl.keystore.password", "kafka.sasl.jaas.config", "fs.s3a.access.key")]
    [True, True, True]
    >>> [is_secret(name) for name in ("kafka.bootstrap.servers", "key", "path", "kafka.ssl.protocol")]
    [False, False, False, False]
    """
    return _NAMES.search(option) is not None


def secret_values(options: Iterable[tuple[str, str]]) -> set[str]:
    """The values that must not be shown: those of secret options, and passwords inside of any value.

    >>> sorted(secret_values([("password", "abcd"), ("url", "jdbc:x://h?password=efgh&user=me"), ("path", "x")]))
    ['abcd', 'efgh']
    """
    found: set[str] = set()
    for name, value in options:
        if is_secret(name):
            found.add(value)
        found |= {inner.strip("\\\"'") for _, inner in _INSIDE.findall(value)}
    return {value for value in found if len(value) >= _SHORTEST}


def hidden(text: str, values: Iterable[str] = ()) -> str:
    """A text with stars for values, and for passwords in URLs and configurations."""
    # Longer ones first: one may be a part of another.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, STARS)
    return _IN_ADDRESS.sub(f"{STARS}@", _INSIDE.sub(rf"\1{STARS}", text))


def without_secrets(text: str, *given: Mapping[str, str]) -> str:
    """A text with stars for the secrets among options, and for passwords in URLs.

    >>> without_secrets("jdbc:x://h/db?password=abc&user=me refuses xyz1", {"password": "xyz1"})
    'jdbc:x://h/db?password=***&user=me refuses ***'
    """
    return hidden(text, secret_values((name, value) for options in given for name, value in options.items()))


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown and saved.

    >>> masked({"user": "me", "password": "abc", "url": "jdbc://me:word@host/db"})
    {'user': 'me', 'password': '***', 'url': 'jdbc://***@host/db'}
    """
    return {name: STARS if is_secret(name) else hidden(value) for name, value in options.items()}


class MissingVariable(ValueError):
    """An option names a variable that the environment does not have."""


def referenced(value: str) -> list[str]:
    """The variables that the value of an option names.

    >>> referenced('user="me" password="${env:KAFKA_PASSWORD}"')
    ['KAFKA_PASSWORD']
    """
    return _REFERENCE.findall(value)


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """Options with the values of the variables that they name; MissingVariable if one is not set."""

    def value(option: str, variable: str) -> str:
        if variable not in os.environ:
            raise MissingVariable(f"option {option} names the environment variable {variable}, which is not set")
        return os.environ[variable]

    return {
        option: _REFERENCE.sub(lambda found, option=option: value(option, found[1]), text)  # type: ignore[misc]
        for option, text in options.items()
    }


def has_literal(option: str, value: str) -> bool:
    """Whether a secret is written out in the value of an option.

    >>> has_literal("password", "abc"), has_literal("password", "${env:PG}"), has_literal("url", "x?password=abc")
    (True, False, True)
    """
    inside = any(_REFERENCE.sub("", text).strip("\\\"'") for _, text in _INSIDE.findall(value))
    return inside or (is_secret(option) and bool(value) and not referenced(value))
