"""Hides passwords, keys and tokens wherever the server shows errors and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headgate.graph.secrets import hidden, secret_values

_OPTION = re.compile(r"[`'\"]?([\w.\-]+)[`'\"]?\s*[=,]?\s*'((?:[^'\\]|\\.|'')*)'")


def secrets_in(sql: str) -> set[str]:
    """The secrets in a text of statements, which may be malformed: the values of secret options.

    >>> sorted(secrets_in("OPTIONS (password 'hunter2', path 'x', `kafka.sasl.jaas.config` = 'a b c')"))
    ['a b c', 'hunter2']
    """
    return secret_values(_OPTION.findall(sql))


class Secrets:
    """Hides the secrets of all declarations in texts. Any thread may call it."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def learn(self, values: Iterable[str]) -> None:
        """Hides these from now on."""
        self._known |= set(values)

    def masked(self, text: str, also: Iterable[str] = ()) -> str:
        """The text with all secrets hidden."""
        return hidden(text, self._known.union(also))
