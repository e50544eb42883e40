"""Who may call the server: the token, the Host and Origin of a request, and the size of its body."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

SHORTEST_TOKEN = 16
"""Minimum number of characters of a token: a shorter one could be guessed."""

_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


class AccessError(ValueError):
    """The server cannot be started with these options; the message says what to do."""


def is_loopback(host: str) -> bool:
    """Whether a server that listens on `host` can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def given_token(token: str | None, file: str | None) -> str | None:
    """The token as text or from a file; AccessError if both are given or the token is unsuitable."""
    if token is not None and file is not None:
        raise AccessError("give --token or --token-file, not both")
    if file is not None:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise AccessError(f"{file}: {reason.lower()}; give a file that holds the token") from error
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise AccessError(
            f"the token must have at least {SHORTEST_TOKEN} printable ASCII characters; make one, for example, with:"
            " openssl rand -hex 16"
        )
    return token


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused: the status and a message for people."""

    status: int
    message: str


class Access:
    """Decides on requests. `host` is the address that the server listens on.

    AccessError if that is not a loopback address and there is no token. Without a token, only requests whose Host is a
    loopback name are served: in a DNS rebinding attack, Host is the name of the attacking site.
    """

    def __init__(self, host: str, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            raise AccessError(
                f"{host} can be reached from other machines, and there is no token: give --token-file FILE (or --token"
                " TEXT), or leave out --host"
            )
        self._digest = None if token is None else _digest(token)
        self._names = _LOOPBACK_NAMES | {host.lower()}

    @property
    def needs_token(self) -> bool:
        return self._digest is not None

    def refusal(self, headers: Mapping[str, str], public: bool) -> Refusal | None:
        """Why a request with these headers (names in lower case) is refused, or None. `public`: it requests
        something that is the same for everyone."""
        host = headers.get("host", "")
        if self._digest is None and _hostname(host) not in self._names:
            return Refusal(421, "this server answers to localhost only; open it under that name")
        if not public:
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2].lower() != host.lower():
                return Refusal(403, "requests from pages of other sites are refused")
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
                return Refusal(403, "requests from pages of other sites are refused")
            if self._digest is not None and not self._allowed(headers.get("authorization", "")):
                return Refusal(401, "a token is needed: send the header Authorization: Bearer TOKEN")
        return None

    def _allowed(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        assert self._digest is not None
        # Digests have the same length, so the time of the comparison reveals nothing about the token.
        return hmac.compare_digest(self._digest, _digest(token.strip())) and scheme.lower() == "bearer"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _hostname(host: str) -> str:
    """The name of a Host header without its port.

    >>> _hostname("LocalHost:8080"), _hostname("[::1]:80"), _hostname("evil.example:80@localhost")
    ('localhost', '::1', '')
    """
    if "@" in host or "/" in host:
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
