"""What a source, table or sink declares about itself: its options, their types, and what it refuses.

The declarations are plain data, so that the SQL checker can use them without importing the connectors, and the
connectors use the same objects to read and to write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headgate.graph.types import Schema

OptionKind = Literal["text", "integer", "boolean", "time", "character", "columns", "length"]

_BOOLEANS = ("true", "false")


@dataclass(frozen=True)
class OptionDeclaration:
    """One option of a connector.

    `choices` are the allowed values, compared without regard to case; `least` is the smallest integer
    allowed, or 1 for a character that must be given.
    """

    name: str
    about: str
    kind: OptionKind = "text"
    needed: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    least: int = 0

    def problem(self, value: str) -> str | None:
        """Why a value is refused; None if it is allowed.

        >>> OptionDeclaration("rows", "", "integer", least=1).problem("none")
        'rows is none; it must be a whole number of at least 1'
        """
        shown = value or "empty"
        if self.choices:
            allowed = value.lower() in [choice.lower() for choice in self.choices]
            return None if allowed else f"{self.name} is {shown}; it may be {', '.join(self.choices)}"
        match self.kind:
            case "integer" if not re.fullmatch(r"-?\d{1,18}", value) or int(value) < self.least:
                return f"{self.name} is {shown}; it must be a whole number of at least {self.least}"
            case "boolean" if value.lower() not in _BOOLEANS:
                return f"{self.name} is {shown}; it may be {', '.join(_BOOLEANS)}"
            case "time" if not re.fullmatch(r"\d{1,18}(us|ms|s|m|min|h|d)?", value):
                return f"{self.name} is {shown}; write a number and a unit, for example 90s, 10min, 1h or 7d"
            case "character" if not self.least <= len(value) <= 1:
                return f"{self.name} is {shown}; it must be a single character{'' if self.least else ', or empty'}"
            case "length" if value.lower() not in _BOOLEANS and not re.fullmatch(r"\d{1,9}", value):
                return f"{self.name} is {shown}; it may be true, false or a number of characters"
            case "text" | "columns" if self.needed and not value:
                return f"{self.name} is empty"
        return None

    def chosen(self, options: Mapping[str, str]) -> str:
        """The value among options that are checked; the default, or nothing, if it is not given."""
        return options.get(self.name, self.default or "")

    def canonical(self, value: str) -> str:
        """An allowed value in the declared spelling."""
        if self.kind == "boolean":
            return value.lower()
        return next((choice for choice in self.choices if choice.lower() == value.lower()), value)


@dataclass(frozen=True)
class OptionSet:
    """The options of one connector.

    - `one_of`: groups of options of which one must be given
    - `prefixes`: options that begin with one of these are passed on unchecked; `lower`: in lower case
    - `refused`: options that one might expect, with the reason and what to write instead
    - `others`: whether options that are not declared are passed on to Spark, which checks them
    """

    declared: tuple[OptionDeclaration, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    prefixes: tuple[str, ...] = ()
    lower: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    others: bool = False

    @property
    def names(self) -> list[str]:
        return [option.name for option in self.declared]

    def find(self, name: str) -> OptionDeclaration | None:
        """The declaration of an option, by its name without regard to case."""
        return next((option for option in self.declared if option.name.lower() == name.lower()), None)

    def refusal(self, name: str) -> str | None:
        """Why an option is refused, and what to write instead."""
        return next((reason for other, reason in self.refused.items() if other.lower() == name.lower()), None)

    def passed_on(self, name: str) -> bool:
        """Whether an option that is not declared goes to Spark unchecked."""
        return self.others or any(name.lower().startswith(prefix) for prefix in self.prefixes)

    def spelled(self, name: str) -> str:
        """An option that is passed on, spelled as its connector looks for it."""
        prefix = next((each for each in self.prefixes if name.lower().startswith(each)), "")
        return prefix + (name.lower() if self.lower else name)[len(prefix) :]

    def needed(self) -> list[tuple[str, ...]]:
        """Groups of options of which one must be given."""
        return [*((option.name,) for option in self.declared if option.needed), *self.one_of]


@dataclass(frozen=True)
class OptionProblem:
    """Why options do not fit each other or the columns; `option` is the one at fault, None if it is missing."""

    option: str | None
    message: str


class Declared(Protocol):
    """A source, table or sink as the SQL checker sees it."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> OptionSet: ...

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        """What is wrong with options that are each allowed, for rows with these columns."""
        ...


class DeclaredSink(Declared, Protocol):
    """A sink as the SQL checker sees it."""

    @property
    def replaces_rows(self) -> bool:
        """Whether a later result can replace an earlier one: queries without a window need it."""
        ...


class DeclaredTable(Declared, Protocol):
    """A static table as the SQL checker sees it."""

    @property
    def versioned(self) -> bool:
        """Whether it tells when its rows have changed; otherwise its files do."""
        ...


@dataclass(frozen=True)
class Connectors:
    """The sources, static tables and sinks whose options are known, by name in lower case. Spark checks all others."""

    sources: Mapping[str, Declared] = field(default_factory=dict)
    tables: Mapping[str, DeclaredTable] = field(default_factory=dict)
    sinks: Mapping[str, DeclaredSink] = field(default_factory=dict)
