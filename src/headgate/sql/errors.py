"""Errors of scripts: the position in the text, the reason, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class SqlError(ValueError):
    """A script that cannot be accepted. `str()` is `file:line:column: message`; line and column count from 1."""

    def __init__(self, message: str, file: str, line: int, column: int) -> None:
        super().__init__(f"{file}:{line}:{column}: {message}")
        self.message = message
        self.file = file
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Script:
    """The text of a script and its file name; converts offsets to positions."""

    text: str
    file: str

    def error(self, message: str, offset: int) -> SqlError:
        """The error to raise for the character at an offset.

        >>> str(Script("a\\nbc", "x.sql").error("no", 3))
        'x.sql:2:2: no'
        """
        offset = max(0, min(offset, len(self.text)))
        before = self.text[:offset]
        line = before.count("\n") + 1
        return SqlError(message, self.file, line, offset - (before.rfind("\n") + 1) + 1)


def closest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known name, or all known names if they are few.

    >>> closest("temprature", ["temperature", "humidity"])
    '; did you mean temperature?'
    >>> closest("x", ["temperature", "humidity"])
    '; there are temperature, humidity'
    """
    names = {n.lower(): n for n in known}
    near = get_close_matches(name.lower(), names, 1, 0.6)
    if near:
        return f"; did you mean {names[near[0]]}?"
    if not names or len(names) > 12:
        return ""
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(names.values())}"
