"""Translates Java's regular expressions and LIKE patterns to RE2, where both match the same.

Spark matches with java.util.regex, Arrow with RE2. The reader below accepts the part of Java's syntax whose meaning
RE2 shares, spells out what differs (`.`, `\\s`, `$`), and returns None for the rest, which Spark matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TERMINATORS = r"\n\r\x{85}\x{2028}\x{2029}"
_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0B\f\r",
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


@dataclass(frozen=True)
class Pattern:
    """A regular expression for RE2.

    `extracts`: groups capture the same text as in Java; `replaces`: replacing all matches gives the same result;
    `plain`: the text that the pattern matches, if it has no special characters.
    """

    text: str
    groups: int
    extracts: bool
    replaces: bool
    plain: str | None

    def named(self) -> str:
        """With groups named g1, g2 … and g0 around the whole, as Arrow's extract_regex requires."""
        number = 0

        def name(match: re.Match[str]) -> str:
            nonlocal number
            if match.group(0) != "(":
                return match.group(0)
            number += 1
            return f"(?P<g{number}>"

        # A group opens with a bare parenthesis: not escaped, not inside a class, not followed by a question mark.
        inner = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)", name, self.text, flags=re.DOTALL)
        return f"(?P<g0>{inner})"


class _Reader:
    """Translates one Java pattern; ValueError where RE2 would match differently."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.groups = 0
        self.captures_repeat = False
        self.anchored_end = False
        self.plain: list[str] | None = []

    def next(self) -> str:
        if self.at >= len(self.source):
            raise ValueError("the pattern ends too early")
        self.at += 1
        return self.source[self.at - 1]

    def peek(self) -> str:
        return self.source[self.at] if self.at < len(self.source) else ""

    def alternatives(self, depth: int) -> tuple[str, bool]:
        """Alternatives joined by |, and whether the empty string matches."""
        text, empty = self.sequence(depth)
        while self.peek() == "|":
            self.plain = None
            self.at += 1
            more, also = self.sequence(depth)
            text, empty = f"{text}|{more}", empty or also
        return text, empty

    def sequence(self, depth: int) -> tuple[str, bool]:
        out: list[str] = []
        empty = True
        while self.peek() not in ("", "|", ")"):
            groups = self.groups
            item, can_be_empty, fixed = self.item(depth)
            item, can_be_empty = self.repeated(item, can_be_empty, fixed, self.groups > groups)
            out.append(item)
            empty = empty and can_be_empty
        return "".join(out), empty

    def item(self, depth: int) -> tuple[str, bool, bool]:
        """One item: its RE2 text, whether it may match the empty string, whether it must not be repeated."""
        char = self.next()
        if char == "\\":
            return self.escape(), False, False
        if char == "(":
            return self.group(depth), self._group_empty, False
        if char == "[":
            self.plain = None
            return self.char_class(), False, False
        if char in ".^$":
            self.plain = None
            return self.special(char, depth)
        if char in "*+?{":
            raise ValueError("nothing to repeat")
        if self.plain is not None:
            self.plain.append(char)
        return re.escape(char) if char.isascii() else char, False, False

    def special(self, char: str, depth: int) -> tuple[str, bool, bool]:
        if char == ".":
            return f"[^{_TERMINATORS}]", False, False
        if char == "^":
            return r"\A", True, True
        if depth or self.at != len(self.source):
            raise ValueError("$ inside a pattern")
        # Java's $ also matches before a line terminator at the end of the text.
        self.anchored_end = True
        return rf"(?:\r\n|[{_TERMINATORS}])?\z", True, True

    def escape(self) -> str:
        char = self.next()
        if char.lower() in _CLASSES:
            self.plain = None
            negation = "^" if char.isupper() else ""
            return f"[{negation}{_CLASSES[char.lower()]}]"
        literal = self.literal_escape(char)
        if self.plain is not None:
            self.plain.append(literal)
        return re.escape(literal)

    def literal_escape(self, char: str) -> str:
        if char in _CONTROL:
            return _CONTROL[char]
        if char.isascii() and not char.isalnum():
            return char
        raise ValueError(f"\\{char}")

    def group(self, depth: int) -> str:
        self.plain = None
        opening = "("
        if self.peek() == "?":
            self.at += 1
            if self.next() != ":":
                raise ValueError("(?")
            opening = "(?:"
        else:
            self.groups += 1
        inside, self._group_empty = self.alternatives(depth + 1)
        if self.next() != ")":
            raise ValueError("unclosed group")
        return f"{opening}{inside})"

    def char_class(self) -> str:
        out = ["["]
        if self.peek() == "^":
            out.append(self.next())
        if self.peek() == "]":
            raise ValueError("] first in a class")
        while (char := self.next()) != "]":
            if char in "[&^":
                raise ValueError("class operators")
            if char == "\\":
                following = self.next()
                if following in _CLASSES:
                    out.append(_CLASSES[following])
                    continue
                char = self.literal_escape(following)
                out.append(re.escape(char))
            elif char == "-":
                # A range, unless it is the first or last character of the class.
                out.append("-" if out[-1] not in ("[", "^") and self.peek() != "]" else r"\-")
            else:
                out.append(re.escape(char) if char.isascii() else char)
        return "".join(out) + "]"

    def repeated(self, item: str, empty: bool, fixed: bool, captures: bool) -> tuple[str, bool]:
        char = self.peek()
        if char not in ("*", "+", "?", "{") or char == "":
            return item, empty
        if fixed:
            raise ValueError("a repeated anchor")
        self.plain = None
        self.at += 1
        count = char
        if char == "{":
            end = self.source.find("}", self.at)
            bounds = self.source[self.at : end]
            if end < 0 or not re.fullmatch(r"[0-9]{1,3}(,[0-9]{0,3})?", bounds):
                raise ValueError("{")
            self.at = end + 1
            count = f"{{{bounds}}}"
            empty = empty or bounds.split(",")[0].strip("0") == ""
        else:
            empty = empty or char in "*?"
        if self.peek() == "?":
            self.at += 1
            count += "?"
        if self.peek() in ("+", "*", "?", "{") and self.peek():
            raise ValueError("possessive or doubled repetition")
        self.captures_repeat = self.captures_repeat or (captures and char != "?")
        return item + count, empty


@lru_cache(maxsize=4096)
def java_regex(source: str) -> Pattern | None:
    """The pattern for RE2, or None where RE2 would match differently.

    >>> java_regex("a.c").text, java_regex("(?=x)"), java_regex("a[.]b?").groups
    ('a[^\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}]c', None, 0)
    """
    reader = _Reader(source)
    try:
        text, empty = reader.alternatives(0)
        if reader.at != len(source):
            return None
    except ValueError:
        return None
    return Pattern(
        text,
        reader.groups,
        extracts=not reader.captures_repeat and not reader.anchored_end,
        replaces=not empty and not reader.anchored_end,
        plain="".join(reader.plain) if reader.plain is not None else None,
    )


def replacement(source: str, groups: int) -> str | None:
    """Java's replacement text (`$1`, `\\\\$`) in RE2's syntax (`\\\\1`), or None if it is not valid.

    >>> replacement("<$1>", 1), replacement("$2", 1)
    ('<\\\\1>', None)
    """
    out: list[str] = []
    at = 0
    while at < len(source):
        char = source[at]
        following = source[at + 1] if at + 1 < len(source) else ""
        if char == "\\":
            if not following:
                return None
            out.append("\\\\" if following == "\\" else following)
            at += 2
        elif char == "$":
            after = source[at + 2] if at + 2 < len(source) else ""
            if not following.isdigit() or int(following) > groups or after.isdigit():
                return None
            out.append("\\" + following)
            at += 2
        else:
            out.append(char)
            at += 1
    return "".join(out)


@dataclass(frozen=True)
class LikePattern:
    """A LIKE pattern: how it matches (`equal`, `prefix`, `suffix`, `inside` or `regex`) and the text for it."""

    kind: str
    text: str


def like_regex(pattern: str, escape: str) -> LikePattern:
    """Parses a LIKE pattern; ValueError where the escape precedes a character that it must not escape.

    >>> like_regex("a%", "\\\\")
    LikePattern(kind='prefix', text='a')
    """
    pieces: list[str | None] = []  # None is %, "" is _
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            following = pattern[at] if at < len(pattern) else ""
            if following not in ("_", "%", escape) or not following:
                raise ValueError(
                    f"in the LIKE pattern '{pattern}' the escape {escape} must stand before _, % or itself"
                )
            pieces.append(following)
            at += 1
        else:
            pieces.append(None if char == "%" else "" if char == "_" else char)
    body = [p for p in pieces if p]
    text = "".join(body)
    if len(body) == len(pieces):
        return LikePattern("equal", text)
    wild = len(pieces) - len(body)
    if "" not in pieces and wild == 1 and pieces[-1] is None:
        return LikePattern("prefix", text)
    if "" not in pieces and wild == 1 and pieces[0] is None:
        return LikePattern("suffix", text)
    if "" not in pieces and wild == 2 and len(pieces) > 2 and pieces[0] is None and pieces[-1] is None:
        return LikePattern("inside", text)
    regex = "".join(".*" if p is None else "." if p == "" else re.escape(p) for p in pieces)
    return LikePattern("regex", rf"(?s)\A(?:{regex})\z")
