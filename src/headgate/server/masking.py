"""Hides passwords, keys and tokens wherever the server shows options, errors and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?($|[._-])|password|secret|token|credential|jaas|private|api[._-]?key|access[._-]?key"
    r"|account[._-]?key|signature|ssl\..*key$",
    re.IGNORECASE,
)
_IN_URI = re.compile(r"(?<=://)[^/\s@'\"]+@")
_IN_TEXT = re.compile(r"[`'\"]?([\w.\-]+)[`'\"]?\s*[=,]?\s*'((?:[^'\\]|\\.|'')*)'")
_SHORTEST = 4
"""A secret of fewer characters is hidden in options, but not searched for in texts: it would be found everywhere."""


def is_secret(option: str) -> bool:
    """Whether an option of this name holds a secret.

    >>> [is_secret(name) for name in ("password", "kafka.sasl.jaas.config", "fs.s3a.access.key", "key", "path")]
    [True, True, True, False, False]
    """
    return _SECRET_NAME.search(option) is not None


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown.

    >>> masked({"user": "u", "password": "p", "url": "jdbc://me:word@host/db"})
    {'user': 'u', 'password': '***', 'url': 'jdbc://***@host/db'}
    """
    return {name: MASK if is_secret(name) else _IN_URI.sub(f"{MASK}@", value) for name, value in options.items()}


def secrets_in(sql: str) -> set[str]:
    """The secrets in a text of statements, which need not be correct: values behind names of secret options.

    >>> sorted(secrets_in("OPTIONS (password 'hunter2', path 'x', `kafka.sasl.jaas.config` = 'a b')"))
    ['a b', 'hunter2']
    """
    return {value for name, value in _IN_TEXT.findall(sql) if is_secret(name) and value}


class Secrets:
    """The secrets of everything declared, hidden in texts. Any thread may call it."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def learn(self, values: Iterable[str]) -> None:
        """Hides these from now on."""
        self._known |= {value for value in values if len(value) >= _SHORTEST}

    def masked(self, text: str, also: Iterable[str] = ()) -> str:
        """A text as it may be shown."""
        for secret in sorted(self._known.union(value for value in also if len(value) >= _SHORTEST), key=len)[::-1]:
            text = text.replace(secret, MASK)
        return _IN_URI.sub(f"{MASK}@", text)
