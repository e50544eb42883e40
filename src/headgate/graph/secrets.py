"""Secrets in options: which options hold one, and texts and options without them.

Passwords reach only the system that asks for them: plans in the checkpoint, messages and `explain` have stars instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STARS = "***"
_NAMES = re.compile(
    r"(?i)passw|passphrase|secret|token|jaas|credential|access[._-]?key|private[._-]?key|account[._-]?key"
)
_IN_URL = re.compile(r"(?i)((?:password|passwd|pwd|secret|token)=)[^&;\s'\"]+")
_USER_IN_URL = re.compile(r"(://[^/@:\s'\"]+:)[^@/\s'\"]+(?=@)")


def is_secret(option: str) -> bool:
    """Whether the value of an option is a secret, by its name.

    >>> is_secret("kafka.ssl.keystore.password"), is_secret("kafka.bootstrap.servers")
    (True, False)
    """
    return _NAMES.search(option) is not None


def without_secrets(text: str, *given: Mapping[str, str]) -> str:
    """A text with stars for the secrets among options, and for passwords in URLs.

    >>> without_secrets("jdbc:x://h/db?password=abc&user=me refuses xyz", {"password": "xyz"})
    'jdbc:x://h/db?password=***&user=me refuses ***'
    """
    values = {value for options in given for name, value in options.items() if is_secret(name) and value}
    # Longer ones first: one may be a part of another.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, STARS)
    return _USER_IN_URL.sub(rf"\1{STARS}", _IN_URL.sub(rf"\1{STARS}", text))


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown and saved.

    >>> masked({"user": "me", "password": "abc"})
    {'user': 'me', 'password': '***'}
    """
    return {name: STARS if is_secret(name) else without_secrets(value) for name, value in options.items()}
